//! A box and its front end, each with a node and a `serversync`: calls go one way, settings the other, and nothing comes back.

use serde_json::{Value, json};
use syncline_sim::until_blocking;
use syncline_testing::process::Node;

use crate::call_box::{CallBox, Frontend};
use crate::node;

const SETTINGS: &str = "jobs = []\n";

fn entity(node: &Node, path: &str) -> Option<Value> {
    let (status, body) = node.ask("GET", &format!("/api/entities/{path}"), &[], "");
    (status == 200).then(|| serde_json::from_str::<Value>(&body).unwrap()["payload"].clone())
}

fn put(node: &Node, path: &str, payload: &Value) {
    let (status, body) = node.ask("PUT", &format!("/api/entities/{path}"), &[], &payload.to_string());
    assert_eq!(status, 200, "{body}");
}

#[test]
fn ss_09_ss_10_calls_arrive_settings_come_back_and_nothing_echoes() {
    let front = node::start(SETTINGS);
    let of = CallBox::new(None);
    let front_box =
        CallBox::new(Some(&format!("sqlite:{}", front.folder.path().join("data/syncline.db").display())));
    let on_box =
        node::start_in(tempfile::tempdir().unwrap(), SETTINGS, &[("DATABASE_URL", &of.database_url)]);
    let up = of.start(&Frontend::Node(&front), &[]);
    let down = front_box.start(&Frontend::Node(&on_box), &[]);

    let calls = of.take_calls(2, &[]);
    until_blocking("the calls are sent", || up.metric("syncline_outbox_sent_total") == 6.0);
    for call in &calls {
        assert_eq!(entity(&front, &format!("call_log/{call}")).unwrap()["id"], json!(call));
        let player = [("range", "bytes=0-3")];
        let (status, start) = front.ask("GET", &format!("/storage/recordings/{call}/mixed.wav"), &player, "");
        assert_eq!((status, start.as_str()), (206, "RIFF"));
    }

    for round in 1..=3 {
        put(&front, "routing_rule/night", &json!({ "to": "voicemail", "round": round }));
    }
    until_blocking("the rule reaches the box", || {
        entity(&on_box, "routing_rule/night").is_some_and(|rule| rule["round"] == 3)
    });
    // The box changes it too, later: the newer change wins on both sides.
    put(&on_box, "routing_rule/night", &json!({ "to": "on call" }));
    until_blocking("the change reaches the front end", || {
        entity(&front, "routing_rule/night").is_some_and(|rule| rule["to"] == "on call")
    });
    until_blocking("nothing waits", || {
        up.metric("syncline_outbox_pending") == 0.0 && down.metric("syncline_outbox_pending") == 0.0
    });
    assert_eq!(entity(&on_box, "routing_rule/night").unwrap()["to"], "on call");
    let sent = (up.metric("syncline_outbox_sent_total"), down.metric("syncline_outbox_sent_total"));
    assert_eq!(sent, (7.0, 3.0), "each change was sent once, by whoever made it, and never back");
}
