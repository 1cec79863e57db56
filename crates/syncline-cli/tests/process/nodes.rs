//! Several nodes on one PostgreSQL.

use syncline_sim::postgres;
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
