//! `syncline top` beside a real node: what it shows is what the node says.

use syncline_testing::process::{Node, run};

#[test]
fn op_09_what_is_paused_held_and_kept_is_on_the_screen() {
    let node = Node::start(
        "[[queues]]\nname = \"mail\"\nworkers = true\n[[jobs]]\nname = \"report\"\ncron = \"0 0 1 1 *\"\nrun = { command = [\"true\"] }\n",
    );
    let url = node.url();
    let said = |arguments: &[&str]| {
        let output = run(node.folder.path(), arguments, &[("SYNCLINE_URL", &url)]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!said(&["top"]).contains("paused"));
    said(&["jobs", "pause", "report"]);
    said(&["queue", "pause", "mail"]);
    said(&["queue", "add", "mail", "a", "b"]);
    let shown = said(&["top"]);
    for line in [
        "jobs     1",
        "  report  never ran, paused",
        "queues   1",
        "  mail  2 waiting, 0 running, 0 retrying, 0 failed, 0 dead, paused",
        "outbox   0 pending, 0 in flight, 0 dead, 0 sent in the last minute",
        "locks    0 held",
        "state    0 spaces, 0 entities, 0 kB",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line:?} is not in\n{shown}");
    }
    let json: serde_json::Value = serde_json::from_str(&said(&["top", "--json"])).unwrap();
    assert_eq!(json["queues"]["queues"][0]["name"], "mail");
}
