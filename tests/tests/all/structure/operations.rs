//! Checks the steps of "Add an operation": each operation of the core is served, has a command and a place in the documents,
//! and has a tool or a reason not to.

use std::fs;

use super::{files, repository, sources};

/// Operations without a tool, and why.
const NO_TOOL: [(&str, &str); 7] = [
    (
        "credentials and whom they let in are a person's to decide",
        "registerPartner createApiKey listApiKeys rotateApiKey revokeApiKey createConsoleLink listConsoleSessions \
         endConsoleSession listAudit rotatePartnerSecret createShare listShares revokeShare",
    ),
    (
        "where events go, and whether again, is set up once by a person",
        "createWebhookEndpoint listWebhookEndpoints getWebhookEndpoint updateWebhookEndpoint deleteWebhookEndpoint \
         testWebhookEndpoint rotateWebhookEndpointSecret recoverWebhookEvents getWebhookRecovery listWebhookRecoveries \
         getWebhookEvent",
    ),
    (
        "what a partner decides for all its bookings is written and reviewed, not chatted",
        "getPartner updatePartner putPolicy getPolicy listPolicies listPolicyVersions validatePolicy listPolicyTemplates",
    ),
    (
        "only people agree: on terms, on a date, on a decision",
        "getDisclosure acceptTerms rescheduleBooking decideResolution getResolution listResolutions",
    ),
    (
        "what cannot be undone, and what forbids it, is a person's to decide",
        "eraseValues listErasures placeHold listHolds releaseHold",
    ),
    (
        "files are sent and kept by programs; a model names them by their digests",
        "putEvidenceItemFile getEvidenceItemFile deleteEvidenceItemFile",
    ),
    (
        "a tool has it already, or answering is enough",
        "getActivity getHealth listBookingWebhookEvents",
    ),
];

/// Operations whose paths no page names: they list or read what a page explains, or the page explains their command instead.
/// They are in the interface document and on the page of commands.
const NO_PAGE: [&str; 6] = [
    "getResolution",
    "listBookingWebhookEvents",
    "listPolicies",
    "listPolicyVersions",
    "listWebhookRecoveries",
    "revokeApiKey",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Partners,
    Operator,
    Database,
}

struct Declared {
    name: String,
    id: String,
    path: String,
    /// Whose it is: everybody's, the operator's, or that of whoever holds the database.
    access: Whose,
}

/// Where operations are that only the server's console calls.
const CONSOLE: &str = "/console/";

/// Returns every operation of the interface as declared.
fn operations() -> Vec<Declared> {
    let mut found = Vec::new();
    for (file, text) in sources("bookguard-core") {
        if !file.starts_with("features/") {
            continue;
        }
        for declaration in text.split("impl Operation for ").skip(1) {
            let said = |key: &str| {
                let (_, after) = declaration.split_once(key).unwrap();
                after.split('"').next().unwrap().to_owned()
            };
            if said("path: \"").starts_with(CONSOLE) {
                continue;
            }
            found.push(Declared {
                name: declaration.split(' ').next().unwrap().to_owned(),
                id: said("id: \""),
                path: said("path: \""),
                access: match declaration.split("tag:").next().unwrap() {
                    route if route.contains("Access::Administrator") => Whose::Operator,
                    route if route.contains("Access::Database") => Whose::Database,
                    _ => Whose::Partners,
                },
            });
        }
    }
    assert!(found.len() > 40, "the operations were not found");
    found
}

/// Returns whether a text names the path, with any text in place of its parameters.
fn names_path(text: &str, path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    text.split(|c: char| c.is_whitespace() || "`'\"()<>|,?".contains(c))
        .any(|word| {
            let word = word
                .split_once("/v1/")
                .map(|(_, rest)| format!("/v1/{rest}"));
            word.is_some_and(|word| {
                let there: Vec<&str> = word
                    .trim_end_matches(['.', ':', ';', '/'])
                    .split('/')
                    .collect();
                let same = |(part, found): (&&str, &&str)| part.starts_with('{') || part == found;
                there.len() == parts.len() && parts.iter().zip(&there).all(same)
            })
        })
}

#[test]
fn every_operation_is_offered_everywhere_or_says_why_not() {
    let operations = operations();
    let command_line = sources("bookguard-cli");
    let server = sources("bookguard-server");
    let (partners, operators) = server["api.rs"].split_once("fn operator_table").unwrap();
    let tools = repository().join("bookguard-server/src/mcp/tools.json");
    let tools = fs::read_to_string(tools).unwrap();
    let mut pages = fs::read_to_string(repository().join("README.md")).unwrap();
    for page in files(&repository().join("docs"), "md") {
        pages.push_str(&fs::read_to_string(page).unwrap());
    }
    let mut missing = Vec::new();
    for Declared {
        name,
        id,
        path,
        access,
    } in &operations
    {
        let mut need = |there: bool, what: &str| {
            if !there {
                missing.push(format!("{name} ({id}): {what}"));
            }
        };
        need(
            command_line
                .values()
                .any(|text| text.contains(&format!("<{name}>"))),
            "no command calls it",
        );
        let offered = |table: &str| table.contains(&format!("offered::<{name}>()"));
        need(
            (offered(partners), offered(operators))
                == (*access == Whose::Partners, *access == Whose::Operator),
            "it is in the table of those who may use it",
        );
        if *access != Whose::Partners {
            continue;
        }
        let excused = NO_PAGE.contains(&&**id);
        need(
            names_path(&pages, path) != excused,
            "a page names its path, or else it is said why not",
        );
        let excused = NO_TOOL
            .iter()
            .any(|(_, ids)| ids.split(' ').any(|known| known == id));
        let has_tool = tools.contains(&format!("\"operation\": \"{id}\""));
        need(
            has_tool != excused,
            "it is a tool, or else has a reason not to be one",
        );
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    let excused = NO_TOOL.iter().flat_map(|(_, ids)| ids.split(' '));
    for id in excused.chain(NO_PAGE) {
        assert!(
            operations.iter().any(|operation| operation.id == id),
            "there is no operation {id}"
        );
    }
}
