//! Events between nodes that share a PostgreSQL: whoever listens at one of them hears what happens at the other.
#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod postgres {
    use serde_json::{Value, json};
    use syncline_testing::{NodeBuilder, RunningNode};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::TcpStream;

    const JOB: &str =
        "[[jobs]]\nname = \"tea\"\ncron = \"0 0 1 1 *\"\ngate = \"always\"\nrun = { command = [\"true\"] }\n";
    const KIND: &str = "[[entities]]\nname = \"note\"\nsettings = true\n";
    const QUEUE: &str = "[[queues]]\nname = \"words\"\nworkers = true\n";

    async fn node(database: &str) -> RunningNode {
        let file = format!("{JOB}{KIND}{QUEUE}");
        NodeBuilder::new(syncline_node::systems()).database(database).file(&file).start().await
    }

    /// A stream of events over a real socket.
    struct Listener(BufReader<TcpStream>);

    impl Listener {
        async fn open(node: &RunningNode, query: &str) -> Listener {
            let mut stream = TcpStream::connect(node.address()).await.unwrap();
            let ask = format!("GET /api/events{query} HTTP/1.1\r\nhost: {}\r\n\r\n", node.address());
            stream.write_all(ask.as_bytes()).await.unwrap();
            let mut listener = Listener(BufReader::new(stream));
            listener.next_that(|name, _| name == "hello").await;
            listener
        }

        /// The facts of the next event that is asked for.
        async fn next_that(&mut self, wanted: impl Fn(&str, &Value) -> bool) -> Value {
            let (mut line, mut name) = (String::new(), String::new());
            loop {
                line.clear();
                assert!(self.0.read_line(&mut line).await.unwrap() > 0, "the stream ended");
                if let Some(word) = line.strip_prefix("event: ") {
                    word.trim_end().clone_into(&mut name);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    let facts: Value = serde_json::from_str(data).unwrap();
                    if wanted(&name, &facts) {
                        return facts;
                    }
                }
            }
        }
    }

    /// Makes things happen at `there` until the listener's node is known there to want them.
    async fn heard_from(there: &RunningNode, listener: &mut Listener) {
        let heard = listener.next_that(|name, facts| name == "lock.acquired" && facts["name"] == "first");
        let happening = async {
            loop {
                let facts = json!({ "name": "first" });
                there.context().events.publish_in("lock.acquired", "first", &facts);
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::select! { _ = heard => {}, () = happening => {} }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn op_04_events_of_every_system_cross_nodes() {
        let database = syncline_sim::postgres::database();
        let (here, there) = tokio::join!(node(&database.url), node(&database.url));
        let mut listener = Listener::open(&here, "").await;
        heard_from(&there, &mut listener).await;

        let lease = there.post("/api/locks/project/acquire", &json!({ "ttlMs": 15_000 })).await;
        let facts =
            listener.next_that(|name, facts| name == "lock.acquired" && facts["name"] == "project").await;
        assert_eq!(facts["token"], lease["token"]);

        there.enqueue("words", "new", &["tide"]).await;
        let claimed = there.post("/api/queues/words/claim", &json!({ "max": 1, "waitMs": 5_000 })).await;
        let done = json!({ "tasks": [{ "token": claimed["tasks"][0]["token"], "result": 4 }] });
        there.post("/api/queues/words/complete", &done).await;
        let facts = listener.next_that(|name, _| name == "queue.result").await;
        assert_eq!((&facts["key"], &facts["state"]), (&json!("tide"), &json!("done")));

        let told = there.send("PUT", "/api/entities/note/n1", Some(&json!({ "text": "a\nb" }))).await;
        assert_eq!(told.status, 200, "{}", told.text());
        let facts = listener.next_that(|name, _| name == "entity.changed").await;
        assert_eq!(facts["changes"][0]["payload"]["text"], "a\nb");

        there.post("/api/jobs/tea/run", &json!({})).await;
        listener.next_that(|name, facts| name == "job" && facts["job"] == "tea").await;

        there.send("PUT", "/api/state/cart/milk", Some(&json!({ "amount": 1 }))).await;
        listener.next_that(|name, facts| name == "state" && facts["space"] == "cart").await;

        there.beat("someone").await;
        listener.next_that(|name, _| name == "viewer.occupied").await;
        tokio::join!(here.stop(), there.stop());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn op_04_what_is_too_large_for_a_message_is_told_as_missed_and_nothing_is_heard_twice() {
        let database = syncline_sim::postgres::database();
        let (here, there) = tokio::join!(node(&database.url), node(&database.url));
        let mut listener = Listener::open(&here, "?topics=lock").await;
        heard_from(&there, &mut listener).await;
        let large = json!({ "name": "large", "text": "x".repeat(10_000) });
        there.context().events.publish_in("lock.acquired", "large", &large);
        let missed = listener.next_that(|name, _| name == "lagged").await;
        assert_eq!(missed["missed"], 1);
        for number in 0..500 {
            there.context().events.publish_in("lock.released", "many", &json!({ "number": number }));
        }
        for number in 0..500 {
            let facts = listener.next_that(|name, _| name == "lock.released").await;
            assert_eq!(facts["number"], number, "in their order, each once");
        }
        tokio::join!(here.stop(), there.stop());
    }

    /// Whoever has no listener costs the others nothing: events are sent only where somebody wants them.
    #[tokio::test(flavor = "multi_thread")]
    async fn op_04_a_topic_that_nobody_listens_to_is_not_sent() {
        let database = syncline_sim::postgres::database();
        let (here, there) = tokio::join!(node(&database.url), node(&database.url));
        let mut locks = Listener::open(&here, "?topics=lock").await;
        heard_from(&there, &mut locks).await;
        let mut heard_here = here.context().events.listen();
        there.context().events.publish("job", &json!({ "job": "unheard" }));
        there.context().events.publish_in("lock.released", "last", &json!({ "name": "last" }));
        locks.next_that(|name, facts| name == "lock.released" && facts["name"] == "last").await;
        while let Ok(event) = heard_here.try_recv() {
            assert_eq!(event.topic(), "lock", "{event:?}");
        }
        tokio::join!(here.stop(), there.stop());
    }
}
