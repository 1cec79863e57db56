//! Several nodes on one PostgreSQL.

use rustix::process::Signal;
use syncline_sim::postgres;
use syncline_sim::until_blocking;
use syncline_testing::process::Node;

#[test]
fn vw_21_nodes_on_one_postgres_see_each_others_viewers() {
    let database = postgres::database();
    let url = database.url.as_str();
    let start = || Node::start_in(tempfile::tempdir().unwrap(), "jobs = []\n", &[("DATABASE_URL", url)]);
    let (one, other) = (start(), start());
    assert_eq!(one.beat("page"), 200);
    while other.get("/api/viewer")["viewers"] != 1 {
        std::thread::yield_now();
    }
    let nodes = other.get("/api/viewer")["nodes"].clone();
    assert_eq!(nodes.as_array().unwrap().len(), 2, "{nodes}");
    // The first node is gone without a word; what it promised stands for whoever comes next.
    drop(one);
    let third = start();
    while third.get("/api/viewer")["occupied"] != true {
        std::thread::yield_now();
    }
    assert_eq!(other.ask("PUT", "/api/kv/shared", &[], "{\"value\":\"1\"}").0, 200);
    assert_eq!(third.get("/api/kv/shared")["value"], "1");
}

/// A node that was frozen was listed as well for a minute and a half.
#[test]
fn cn_02_cn_04_on_one_postgres_a_node_that_stands_still_is_known_to_the_others_and_so_is_its_return() {
    let database = postgres::database();
    let start = |name| {
        let environment = [("DATABASE_URL", database.url.as_str()), ("SYNCLINE_NODE", name)];
        Node::start_in(tempfile::tempdir().unwrap(), "jobs = []\n", &environment)
    };
    let (here, there) = (start("here"), start("there"));
    let still = || {
        let nodes = here.get("/api/nodes")["nodes"].as_array().unwrap().clone();
        let there = nodes.iter().find(|node| node["node"] == "there")?;
        there["standsStill"].as_bool()
    };
    until_blocking("the other node to be listed", || still() == Some(false));
    there.signal(Signal::STOP);
    until_blocking("the other node to be noticed", || still() == Some(true));
    let nodes = here.get("/api/nodes")["nodes"].clone();
    let silent_ms = nodes[1]["silentMs"].as_u64().unwrap();
    assert!(silent_ms < 60_000, "it had not missed its minute yet: {nodes}");
    there.signal(Signal::CONT);
    until_blocking("the other node to answer again", || still() == Some(false));
    assert_eq!(here.get("/api/nodes")["nodes"][0]["standsStill"], false);
}
