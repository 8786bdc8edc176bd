//! `evidence export`: evidence in the fields of a card dispute.

use bookguard_tests::json::Members as _;
use serde_json::json;

use super::target::on_database_and_server;

#[tokio::test]
async fn evidence_is_put_into_the_fields_of_a_dispute() {
    on_database_and_server(1, async |target, _| {
        let id = target.book().await;
        let export = format!("evidence export {id} --reason product_not_received --for ");
        let stripe = target.json(format!("{export}stripe")).await;
        stripe.holds(json!({
            "for": "stripe", "reason": "product_not_received", "bookingId": id, "cut": [],
        }));
        assert_eq!(stripe["request"]["submit"], false);
        stripe["request"]["evidence"].holds(json!({
            "customer_name": "O", "service_date": "2031-06-20",
        }));
        assert_eq!(stripe["files"][0]["field"], "service_documentation");
        assert!(stripe.list("missing").len() >= 4);
        let card = target.json(format!("{export}card")).await;
        assert_eq!(card["fields"]["customerName"], "O");
        assert_eq!(card.list("processors").len(), 3);
        let words = ["customer_name", "to add: ", "Nothing was submitted."];
        target.table(format!("{export}stripe"), &words).await;
        let unknown = format!("evidence export {id} --for stripe --reason theft");
        let refused = target.run(unknown).await;
        refused.refused(5, &["--reason: \"theft\" is not an allowed value"]);
        refused.refused(5, &["credit_not_processed", "unrecognized"]);
    })
    .await;
}
