//! What only the shared engine promises: it outlives its server's restarts and tells its troubles apart.

#![cfg(test)]

#[path = "postgres/numbers.rs"]
mod numbers;
#[path = "postgres/sleep.rs"]
mod sleep;

use std::collections::BTreeSet;
use std::env;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use syncline_core::kv::Key;
use syncline_core::lock::{LeaseId, Name, Ttl};
use syncline_core::outbox::Verdict;
use syncline_core::schedule::{Bucket, Cost, Reason};
use syncline_core::time::Timestamp;
use syncline_sim::postgres::{self, Cluster};
use syncline_sim::{PATIENCE, until};
use syncline_store::lock::{Acquired, Request};
use syncline_store::outbox::{Kind, Receipt, ReceiptUpdate};
use syncline_store::schedule::{Claim, Filter, HISTORY_MAX, Intent};
use syncline_store::{Error, Options, OutboxStore, Store, parts};
use tokio::task::block_in_place;

fn key(text: &str) -> Key {
    Key::new(text).expect("the tests' keys are valid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_restarted_is_found_again() {
    let mut cluster = block_in_place(Cluster::start).unwrap();
    let store = Store::open(&cluster.url("postgres")).await.unwrap();
    store.kv().put(&key("before"), "v", None).await.unwrap();

    block_in_place(|| cluster.stop_immediate()).unwrap();
    let (kv, before) = (store.kv(), key("before"));
    let (lost, ping) = tokio::join!(kv.get(&before), store.ping());
    for lost in [lost.map(drop), ping] {
        let lost = lost.unwrap_err();
        assert!(matches!(lost, Error::Unreachable { .. }), "{lost:?}");
        assert!(lost.retryable() && lost.hint().is_some());
    }

    block_in_place(|| cluster.restart()).unwrap();
    // Nothing was reopened; the same store answers again.
    assert_eq!(store.kv().get(&key("before")).await.unwrap().unwrap().value, "v");
    store.kv().put(&key("after"), "v", None).await.unwrap();
    store.ping().await.unwrap();
}

const PLAIN: &str = "CREATE TABLE sync_outbox (id bigserial PRIMARY KEY, entity_type text NOT NULL, entity_id text NOT NULL, \
     payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz); \
     INSERT INTO sync_outbox (entity_type, entity_id, payload) SELECT 'a', n::text, '1' FROM generate_series(1, 100) AS n";

async fn execute(connection: &mut PgConnection, sql: &str) -> sqlx::Result<()> {
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(connection).await.map(drop)
}

/// The first start used to wait for the table's lock behind whoever had read the table, and every insert of the application
/// waited behind the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_34_an_application_goes_on_writing_while_its_table_is_taken_over() {
    let database = block_in_place(postgres::database);
    let mut reader = PgConnection::connect(&database.url).await.unwrap();
    let mut application = PgConnection::connect(&database.url).await.unwrap();
    execute(&mut application, PLAIN).await.unwrap();
    execute(&mut reader, "BEGIN; SELECT count(*) FROM sync_outbox").await.unwrap();
    let url = database.url.clone();
    let opening = tokio::spawn(async move { OutboxStore::open(&url).await });
    // An insert that waits for longer fails, and this with it.
    execute(&mut application, "SET lock_timeout = '2s'").await.unwrap();
    let insert = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('a', 'b', '1')";
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        let begun = Instant::now();
        execute(&mut application, insert).await.expect("the application does not wait");
        longest = longest.max(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    println!("40 inserts beside a reader and a first start waited {longest:?} at most");
    assert!(!opening.is_finished(), "it waits for the reader, alone");
    execute(&mut reader, "COMMIT").await.unwrap();
    let store = opening.await.unwrap().unwrap();
    assert_eq!(store.outbox().stats().await.unwrap().pending, 140);
    let incomplete =
        "SELECT count(*) FROM pg_index WHERE indrelid = 'sync_outbox'::regclass AND NOT indisvalid";
    assert_eq!(count(&mut application, incomplete).await, 0);
    store.close().await;
    Store::open(&database.url).await.unwrap().close().await;
}

/// A start that was killed between two indexes leaves one that is not complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_34_a_start_that_died_while_it_took_a_table_over_is_gone_on_with() {
    let database = block_in_place(postgres::database);
    let mut application = PgConnection::connect(&database.url).await.unwrap();
    execute(&mut application, PLAIN).await.unwrap();
    OutboxStore::open(&database.url).await.unwrap().close().await;
    execute(
        &mut application,
        "DROP TABLE syncline.migrations, syncline.sync_outbox_sender, syncline.sync_receipts; DROP INDEX sync_outbox_due_kind; \
         UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'sync_outbox_ready'::regclass",
    )
    .await
    .unwrap();
    let store = OutboxStore::open(&database.url).await.unwrap();
    assert_eq!(store.outbox().fetch_pending(1_000).await.unwrap().len(), 100);
    let complete = "SELECT count(*) FROM pg_index WHERE indrelid = 'sync_outbox'::regclass AND indisvalid";
    assert_eq!(count(&mut application, complete).await, 9, "eight and the primary key");
    store.close().await;
}

async fn count(connection: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

/// A role with a schema of its own and the application's table in another: a second, empty table was made and read for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_34_the_table_of_another_schema_is_used_or_named_and_never_doubled() {
    let database = block_in_place(postgres::database);
    let mut application = PgConnection::connect(&database.url).await.unwrap();
    execute(&mut application, PLAIN).await.unwrap();
    execute(&mut application, "CREATE SCHEMA box").await.unwrap();
    let parameter = if database.url.contains('?') { '&' } else { '?' };
    let with_path = |path: &str| format!("{}{parameter}options[search_path]={path}", database.url);
    let tables = "SELECT count(*) FROM pg_class WHERE relname = 'sync_outbox'";

    let elsewhere = OutboxStore::open(&with_path("box")).await.unwrap_err();
    assert!(
        matches!(&elsewhere, Error::Unfit { reason, .. } if reason.contains("schema public")),
        "{elsewhere}"
    );
    let store = OutboxStore::open(&with_path("box,public")).await.unwrap();
    assert_eq!(store.outbox().stats().await.unwrap().pending, 100, "the application's");
    store.close().await;
    assert_eq!(count(&mut application, tables).await, 1);

    execute(&mut application, "CREATE TABLE box.sync_outbox (LIKE public.sync_outbox)").await.unwrap();
    let two = OutboxStore::open(&with_path("box,public")).await.unwrap_err();
    assert!(matches!(&two, Error::Unfit { reason, .. } if reason.contains("box and public")), "{two}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_34_a_table_that_cannot_be_an_outbox_is_refused_with_the_mend() {
    let rest = "entity_id text, payload text, created_at timestamptz, processed_at timestamptz";
    let cases = [
        (format!("CREATE TABLE sync_outbox (id uuid PRIMARY KEY, entity_type text, {rest})"), "bigserial"),
        (format!("CREATE TABLE sync_outbox (id bigint, entity_type text, {rest})"), "primary key"),
        (format!("CREATE TABLE sync_outbox (id bigint PRIMARY KEY, entity_type text, {rest}, attempts int)"), "of its own"),
        (format!("CREATE TABLE sync_outbox (id bigint, entity_type text, {rest}) PARTITION BY RANGE (id)"), "partitioned"),
        ("CREATE TABLE sync_outbox (id bigint PRIMARY KEY)".to_owned(), "no column entity_type"),
        ("CREATE VIEW sync_outbox AS SELECT 1 AS id".to_owned(), "view"),
        ("CREATE TABLE sync_outbox (id bigint PRIMARY KEY, entity_type text, entity_id text, payload text, created_at text, processed_at text)".to_owned(), "timestamptz"),
    ];
    for (sql, words) in cases {
        let database = block_in_place(postgres::database);
        let mut application = PgConnection::connect(&database.url).await.unwrap();
        execute(&mut application, &sql).await.unwrap();
        for refused in
            [OutboxStore::open(&database.url).await.map(drop), OutboxStore::check(&database.url).await]
        {
            let refused = refused.unwrap_err();
            assert!(matches!(&refused, Error::Unfit { reason, .. } if reason.contains(words)), "{refused}");
        }
    }
}

/// What a receipt changes in a table of photos.
fn uploaded(receipt: &Receipt) -> ReceiptUpdate {
    let set = [("upload_status", "uploaded"), ("s3_url", receipt.file_url.as_str())];
    ReceiptUpdate {
        table: "photos".to_owned(),
        id_column: "id".to_owned(),
        set: set.map(|(column, value)| (column.to_owned(), value.into())).to_vec(),
    }
}

/// The rights that the guide names are enough, and it names no more than a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_38_a_role_with_the_guides_rights_can_send() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let url = cluster.url("postgres");
    let mut owner = PgConnection::connect(&url).await.unwrap();
    execute(&mut owner, PLAIN).await.unwrap();
    execute(&mut owner, "CREATE TABLE photos (id text, upload_status text, s3_url text)").await.unwrap();
    OutboxStore::open(&url).await.unwrap().close().await;
    let guide =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serversync.md")).unwrap();
    let grants = guide.split("```sql\n").find(|block| block.starts_with("GRANT")).unwrap();
    let grants = grants.split("```").next().unwrap();
    execute(&mut owner, &format!("CREATE ROLE sender LOGIN; {grants}")).await.unwrap();
    let (_, server) = url.split_once('@').unwrap();
    let store = OutboxStore::open(&format!("postgres://sender@{server}")).await.unwrap();
    let outbox = store.outbox();
    let claimed = outbox.claim("w", Kind::Change, 10, Duration::from_secs(9)).await.unwrap();
    let done: Vec<_> = claimed.entries.iter().map(|entry| (entry.id, Verdict::Done)).collect();
    assert_eq!(outbox.settle(claimed.claim, &done).await.unwrap().len(), 10);
    let receipt = Receipt {
        entry: 11,
        file_id: "r".to_owned(),
        file_url: "https://f.example/x".to_owned(),
        bytes: 1,
        sha256: "ab".repeat(32),
    };
    outbox.store_receipt(&receipt, Some(&uploaded(&receipt))).await.unwrap();
    assert_eq!(outbox.cleanup(Duration::ZERO, 100).await.unwrap(), 10);
    outbox.stats().await.unwrap();
    store.close().await;
}

/// Times without a zone, dates, and an ENUM that has the type of files: read as what they are. A UUID in capitals is the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_31_columns_of_other_types_are_read_and_a_bad_value_in_them_is_that_rows_own() {
    let database = block_in_place(postgres::database);
    let mut application = PgConnection::connect(&database.url).await.unwrap();
    let sql = "CREATE TYPE kind AS ENUM ('a', 'invoice_file'); \
         CREATE TABLE sync_outbox (id serial PRIMARY KEY, entity_type kind, entity_id uuid, payload json, created_at timestamp, \
         processed_at date); INSERT INTO sync_outbox (entity_type, entity_id, payload, created_at) VALUES \
         ('a', gen_random_uuid(), '1', '2026-01-01'), (NULL, gen_random_uuid(), '1', '2026-01-01'), \
         ('a', NULL, '1', '2026-01-01'), ('a', gen_random_uuid(), NULL, 'infinity'), \
         ('invoice_file', gen_random_uuid(), '{}', '2026-01-01'), ('a', gen_random_uuid(), NULL, '2026-01-02'); \
         CREATE TABLE photos (id uuid PRIMARY KEY, upload_status text, s3_url text); \
         INSERT INTO photos VALUES ('018c0000-0000-7000-8000-00000000abcd', 'local')";
    execute(&mut application, sql).await.unwrap();
    let store = OutboxStore::open(&database.url).await.unwrap();
    let outbox = store.outbox();
    let claimed = outbox.claim("w", Kind::Change, 10, Duration::from_secs(9)).await.unwrap();
    assert_eq!(claimed.entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 6]);
    assert_eq!(claimed.unreadable.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(outbox.claim("w", Kind::File, 10, Duration::from_secs(9)).await.unwrap().entries.len(), 1);
    let receipt = Receipt {
        entry: 5,
        file_id: "018C0000-0000-7000-8000-00000000ABCD".to_owned(),
        file_url: "https://f.example/x".to_owned(),
        bytes: 1,
        sha256: "ab".repeat(32),
    };
    outbox.store_receipt(&receipt, Some(&uploaded(&receipt))).await.unwrap();
    assert_eq!(outbox.receipt_of(&receipt.file_id).await.unwrap(), Some(receipt));
    let uploaded = "SELECT count(*) FROM photos WHERE upload_status = 'uploaded'";
    assert_eq!(count(&mut application, uploaded).await, 1);
    store.close().await;
}

/// A firewall that forgets connections tells nobody: the listener waited for ever on a dead one, and commits were found by the
/// poll alone, minutes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ss_34_a_listener_whose_connection_went_silent_notices_and_hears_again() {
    let cluster = block_in_place(Cluster::start).unwrap();
    let (address, forget) = forgetful_proxy(&cluster.url("postgres")).await;
    let direct = cluster.url("postgres");
    let (role, _) = direct.split_once('@').unwrap();
    let url = format!("{role}@{address}/postgres");
    let store = OutboxStore::open(&url).await.unwrap();
    let mut wakes = store.outbox().wakes();
    let mut outside = PgConnection::connect(&cluster.url("postgres")).await.unwrap();
    let listening =
        "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN %' OR query = 'SELECT 1'";
    wait_for_count(&mut outside, listening, 1).await;
    until("the worker to sleep", async || sleep::asleep(&mut outside).await).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    forget.send_modify(|generation| *generation += 1);
    wakes.mark_unchanged();
    // Nothing is inserted: only a listener that has noticed and come back wakes anybody.
    tokio::time::timeout(PATIENCE, wakes.changed()).await.expect("it notices").unwrap();
    until("the worker to wake", async || !sleep::asleep(&mut outside).await).await;
    until("the worker to sleep", async || sleep::asleep(&mut outside).await).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    wakes.mark_unchanged();
    let insert = "INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('a', 'b', '1')";
    execute(&mut outside, insert).await.unwrap();
    tokio::time::timeout(PATIENCE, wakes.changed()).await.expect("it hears").unwrap();
}

/// A way to the server whose connections of an earlier generation carry nothing any more, without an end to either side.
async fn forgetful_proxy(url: &str) -> (std::net::SocketAddr, tokio::sync::watch::Sender<u64>) {
    let server = url.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (generation, following) = tokio::sync::watch::channel(0_u64);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (server, mut following) = (server.clone(), following.clone());
            following.mark_unchanged();
            tokio::spawn(async move {
                let mut upstream = tokio::net::TcpStream::connect(&server).await.unwrap();
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => {}
                    _ = following.changed() => std::future::pending().await,
                }
            });
        }
    });
    (address, generation)
}

/// A store that nobody closed used to keep its listening connection for as long as the process lived: the listener held
/// what it listened for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lk_21_the_listener_leaves_with_a_store_that_nobody_closed() {
    let database = block_in_place(postgres::database);
    let store = Store::open(&database.url).await.unwrap();
    let mut outside = PgConnection::connect(&database.url).await.unwrap();
    let listeners =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'LISTEN %'";
    let watch = store.locks().watch(&Name::new("project").unwrap());
    wait_for_count(&mut outside, listeners, 1).await;
    drop((watch, store));
    wait_for_count(&mut outside, listeners, 0).await;
}

async fn wait_for_count(connection: &mut PgConnection, sql: &'static str, wanted: i64) {
    until(&format!("{wanted} rows: {sql}"), async || {
        sqlx::query_scalar::<_, i64>(sql).fetch_one(&mut *connection).await.unwrap() == wanted
    })
    .await;
}

/// `SYNCLINE_POSTGRES_KILLS` sets how often; a restart with recovery takes its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_write_is_lost_when_the_server_is_killed() {
    let kills = env::var("SYNCLINE_POSTGRES_KILLS").map_or(2, |kills| kills.parse().unwrap());
    let mut cluster = block_in_place(Cluster::start).unwrap();
    let store = Store::open(&cluster.url("postgres")).await.unwrap();
    let mut acknowledged = 0;
    for round in 0..kills {
        let said = Arc::new(Mutex::new((BTreeSet::new(), BTreeSet::new())));
        let writers: Vec<_> = (0..4)
            .map(|writer| tokio::spawn(write_until_lost(store.clone(), round, writer, Arc::clone(&said))))
            .collect();
        until("the writers have got going", async || said.lock().unwrap().0.len() >= 50).await;
        block_in_place(|| cluster.kill()).unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        block_in_place(|| cluster.restart()).unwrap();
        let (puts, claims) = std::mem::take(&mut *said.lock().unwrap());
        for put in &puts {
            assert!(store.kv().get(&key(put)).await.unwrap().is_some(), "lost {put}");
        }
        for run in &claims {
            assert!(store.schedule().run(*run).await.unwrap().is_some(), "lost {run:?}");
        }
        acknowledged += puts.len() + claims.len();
    }
    println!("kills={kills} acknowledged={acknowledged} lost=0");

    let mut runs = 0;
    let mut before = None;
    loop {
        let page = store.schedule().history(Filter::default(), before, HISTORY_MAX).await.unwrap();
        let Some(last) = page.last() else { break };
        (runs, before) = (runs + page.len() as u64, Some(last.id));
        for run in &page {
            let lock = Name::new(format!("genlock:{}:render", run.bucket.as_ref().unwrap())).unwrap();
            assert!(store.locks().look(&lock).await.unwrap().is_some(), "run without its lock: {run:?}");
        }
    }
    assert_eq!(store.schedule().totals(None).await.unwrap().runs_total(), runs, "no count without its run");
}

type Said = Arc<Mutex<(BTreeSet<String>, BTreeSet<syncline_store::schedule::RunId>)>>;

async fn write_until_lost(store: Store, round: u64, writer: u64, said: Said) {
    for n in 0.. {
        let name = format!("k:{round}:{writer}:{n}");
        if store.kv().put(&key(&name), "v", None).await.is_err() {
            return;
        }
        let intent = Intent { job: "render", node: "a", reason: Reason::Watched, cost: Cost::DEFAULT };
        let minute = (round * 100_000 + n) * 10 + writer;
        let bucket = Bucket::minute(Timestamp::from_ms(minute * 60_000));
        let claim = store.schedule().claim(&intent, bucket, Duration::from_secs(86_400)).await;
        let mut said = said.lock().expect("no writer panics while it holds this");
        said.0.insert(name);
        match claim {
            Ok(Claim::Won { run_id }) => _ = said.1.insert(run_id),
            Ok(Claim::Taken { by }) => panic!("{bucket} is taken by {by}"),
            Err(_) => return,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_keeps_a_store_from_opening_is_told_apart() {
    let database = block_in_place(postgres::database);
    let Err(missing) = Store::open(&format!("{}_missing", database.url)).await else { panic!("it opened") };
    assert!(
        matches!(&missing, Error::Denied { reason, .. } if reason.contains("does not exist")),
        "{missing:?}"
    );

    // A port that nobody listens on: this one was just given back.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = Store::open(&format!("postgres://user:hunter2@127.0.0.1:{port}/db")).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Unreachable { reason, .. } if reason.contains("refused")),
        "{refused:?}"
    );
    assert!(!format!("{refused} {refused:?}").contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_does_not_hold_us_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://user@{}/db?sslmode=disable", silent.local_addr().unwrap());
    let gone = Store::open(&url).await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable { .. }), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_hang_are_given_up_and_leave_room_for_others() {
    let database = block_in_place(postgres::database);
    let store = Store::open(&database.url).await.unwrap();
    store.kv().put(&key("before"), "v", None).await.unwrap();
    let mut other = PgConnection::connect(&database.url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE syncline.kv IN ACCESS EXCLUSIVE MODE")
        .execute(&mut other)
        .await
        .unwrap();
    // As many as there are connections, so that one that stayed behind would be missed.
    let stuck = (0..10).map(|n| {
        let store = store.clone();
        tokio::spawn(async move { store.kv().put(&key(&format!("stuck:{n}")), "v", None).await })
    });
    for put in futures::future::join_all(stuck).await {
        let given_up = put.unwrap().unwrap_err();
        assert!(
            matches!(&given_up, Error::Unreachable { reason, .. } if reason.contains("no answer")),
            "{given_up:?}"
        );
    }
    store.ping().await.unwrap();
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(store.kv().get(&key("before")).await.unwrap().unwrap().value, "v");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_may_not_create_can_use_what_is_there() {
    let database = block_in_place(postgres::database);
    let role = format!("clerk_{}", std::process::id());
    let create = format!("CREATE ROLE {role} LOGIN PASSWORD 'clerk'");
    block_in_place(|| database.execute(&create)).unwrap();
    let (scheme, rest) = database.url.split_once("://").unwrap();
    let (_, address) = rest.split_once('@').unwrap();
    let clerk = format!("{scheme}://{role}:clerk@{address}");
    let denied = Store::open(&clerk).await.unwrap_err();
    assert!(
        matches!(&denied, Error::Denied { reason, .. } if reason.contains("permission denied")),
        "{denied:?}"
    );

    Store::open(&database.url).await.unwrap();
    let grant = format!(
        "GRANT USAGE ON SCHEMA syncline TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, syncline TO {role}; \
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA public, syncline TO {role}"
    );
    let revoke = format!("DROP OWNED BY {role}; DROP ROLE {role}");
    block_in_place(|| database.execute(&grant)).unwrap();
    let store = Store::open(&clerk).await.unwrap();
    store.kv().put(&key("k"), "v", None).await.unwrap();
    let intent = Intent { job: "render", node: "a", reason: Reason::ByHand, cost: Cost::DEFAULT };
    store.schedule().start(&intent).await.unwrap();
    store.close().await;
    block_in_place(|| database.execute(&revoke)).unwrap();
}

/// Channels of `LISTEN` are the database's, not a schema's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hs_04_two_schemas_of_one_database_are_strangers() {
    let database = block_in_place(postgres::database);
    let parts = Options::of(&[&parts::KV, &parts::LOCK]);
    let one = Store::open_with(&database.url, &parts.clone().schema("one")).await.unwrap();
    let two = Store::open_with(&database.url, &parts.schema("two")).await.unwrap();
    one.kv().put(&key("k"), "one", None).await.unwrap();
    assert_eq!(two.kv().get(&key("k")).await.unwrap(), None);
    let mut listener = sqlx::postgres::PgListener::connect(&database.url).await.unwrap();
    listener.listen_all(["one.lock", "two.lock"]).await.unwrap();
    let name = Name::new("project").unwrap();
    for (store, channel) in [(&two, "two.lock"), (&one, "one.lock")] {
        let lease = LeaseId::from_random(rand::random());
        let ask = |lease, waits| Request { name: &name, lease, holder: "ann", ttl: Ttl::DEFAULT, waits };
        assert!(matches!(store.locks().acquire(ask(lease, false)).await.unwrap(), Acquired::Granted { .. }));
        let other = LeaseId::from_random(rand::random());
        assert!(matches!(store.locks().acquire(ask(other, true)).await.unwrap(), Acquired::Held(_)));
        store.locks().release(&name, lease).await.unwrap().unwrap();
        assert_eq!(listener.recv().await.unwrap().channel(), channel);
    }
    // One table for changes has one owner.
    OutboxStore::open_with(&database.url, Options::default().schema("one")).await.unwrap().close().await;
    let second = OutboxStore::open_with(&database.url, Options::default().schema("two")).await.unwrap_err();
    assert!(matches!(&second, Error::Unfit { reason, .. } if reason.contains("schema one")), "{second}");
}
