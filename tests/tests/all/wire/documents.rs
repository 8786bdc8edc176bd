//! Discovery documents and unknown paths.

use bookguard_tests::engine::on_every_engine;
use bookguard_tests::test_server::TestServer;

#[tokio::test]
async fn discovery_documents_are_served_to_everybody() {
    on_every_engine(async |engine| {
        let server = TestServer::open(engine).await;
        let caller = server.caller();
        let openapi = caller.get("/openapi.json").await;
        assert_eq!(openapi.json()["info"]["version"], "0.1.0");
        assert_eq!(caller.get("/api/openapi.json").await.body, openapi.body);
        let checked_in = include_bytes!("../../../../openapi/openapi.json");
        assert!(openapi.body == checked_in, "openapi/openapi.json is old");
        let schema = caller.get("/policy.schema.json").await;
        assert_eq!(schema.text(), bookguard_core::policy::SCHEMA);
    })
    .await;
}

#[tokio::test]
async fn unknown_paths_are_404_in_json_with_and_without_a_key() {
    on_every_engine(async |engine| {
        let (server, acme) = TestServer::with_partner(engine).await;
        let mut answers = std::collections::BTreeSet::new();
        let paths = "// /v1 /v1/ /v2/bookings /V1/bookings /v1/bookings/ /v1//bookings /v1/bookings/x/unknown /v1/health/ \
                     /v1/partners /v1/ledger /.well-known /.well-known/mcp /.well-known/security.txt /docs/ \
                     /docs/swagger-ui-bundle.js.map /.env /openapi.json/ /v1/bookings%2Fx";
        for path in paths.split(' ') {
            for caller in [&server.caller(), &acme.caller] {
                for method in ["GET", "POST", "DELETE", "PATCH"] {
                    let reply = caller.send(caller.request(method, path)).await;
                    reply.refused(404, "path_not_found");
                    answers.insert(reply.body);
                }
            }
        }
        assert_eq!(answers.len(), 1);
    })
    .await;
}
