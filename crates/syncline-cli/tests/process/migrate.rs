//! A guest in an application's database: tables made by an administrator, and a role that may only read and write rows.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use syncline_sim::postgres::Cluster;
use syncline_testing::process::{Node, run, serversync};

const APPLICATION: &str = "CREATE TABLE sync_outbox (id bigserial PRIMARY KEY, entity_type text NOT NULL, entity_id text NOT NULL, \
     payload jsonb NOT NULL, created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz); \
     CREATE TABLE kv (mine text); CREATE TABLE locks (mine text); INSERT INTO kv VALUES ('untouched'); \
     INSERT INTO sync_outbox (entity_type, entity_id, payload) VALUES ('order', 'o1', '{\"n\":1}'); \
     CREATE ROLE box LOGIN";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a script as an administrator would, by `psql` where there is one.
fn administrate(cluster: &Cluster, sql: &str) {
    let psql = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", &cluster.url("shop")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut psql) = psql else { return cluster.execute("shop", sql).unwrap() };
    psql.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
    let done = psql.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
}

#[test]
fn hs_04_on_postgres_a_role_that_may_only_change_rows_sends_from_tables_that_an_administrator_made() {
    let cluster = Cluster::start().unwrap();
    cluster.execute("postgres", "CREATE DATABASE shop").unwrap();
    cluster.execute("shop", APPLICATION).unwrap();
    let url = cluster.url("shop");
    let (_, server) = url.split_once('@').unwrap();
    let folder = tempfile::tempdir().unwrap();
    let frontend = Node::start("jobs = []\n[[entities]]\nname = \"order\"\n");
    let send = |arguments: &[&str]| -> Output {
        let mut command = serversync(folder.path(), arguments);
        command
            .env("DATABASE_URL", format!("postgres://box@{server}"))
            .env("FRONTEND_BASE_URL", frontend.url());
        command.env("SYNCLINE_LOG_FORMAT", "json").output().unwrap()
    };

    let unprepared = send(&["--no-migrate", "--once"]);
    assert_ne!(unprepared.status.code(), Some(0));
    assert!(said(&unprepared).contains("syncline migrate"), "{}", said(&unprepared));
    let denied = send(&["--once"]);
    assert!(said(&denied).contains("syncline migrate --print"), "{}", said(&denied));

    let printed = run(folder.path(), &["migrate", "--print", "--system", "outbox"], &[]);
    let sql = String::from_utf8(printed.stdout).unwrap();
    assert!(sql.contains("What is changed in the application's table: eight columns"), "{sql}");
    administrate(&cluster, &sql);
    administrate(&cluster, &sql);

    // Each right that is missing is named by the statement that grants it.
    let mut granted = 0;
    loop {
        let sent = send(&["--no-migrate", "--once"]);
        if sent.status.success() {
            break;
        }
        let told = said(&sent);
        let grants = told.split("GRANT ").skip(1).map(|grant| {
            let end = grant.find(" TO box").expect("it says to whom");
            format!("GRANT {} TO box", &grant[..end])
        });
        let grants: Vec<String> = grants.collect();
        assert!(!grants.is_empty() && granted < 10, "{told}");
        if told.contains("sync_receipts") {
            let expected = "GRANT SELECT, INSERT, UPDATE, DELETE ON syncline.sync_receipts TO box";
            assert!(grants.iter().any(|grant| grant == expected), "{told}");
        }
        granted += grants.len();
        administrate(&cluster, &grants.join(";\n"));
    }
    assert!(granted >= 4, "schema, migrations, two tables of ours and sync_outbox");
    let untouched = "DO $$ BEGIN ASSERT (SELECT count(*) FROM kv WHERE mine = 'untouched') = 1; \
         ASSERT (SELECT count(*) FROM sync_outbox WHERE processed_at IS NOT NULL) = 1; \
         ASSERT (SELECT count(*) FROM pg_tables WHERE schemaname = 'syncline') = 3; END $$";
    cluster.execute("shop", untouched).unwrap();
}

#[test]
fn hs_04_migrate_makes_the_tables_of_what_is_asked_for_and_says_what_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("locks.db").display());
    let arguments = ["migrate", "--system", "lock,kv", "--database-url", &url];
    for _ in 0..2 {
        let made = run(folder.path(), &arguments, &[]);
        assert_eq!(made.status.code(), Some(0), "{}", said(&made));
        assert!(String::from_utf8(made.stdout).unwrap().trim_end().ends_with("is up to date: lock, kv"));
    }
    let unknown = run(folder.path(), &["migrate", "--system", "books", "--print"], &[]);
    assert_eq!(unknown.status.code(), Some(2), "{}", said(&unknown));
    assert!(said(&unknown).contains("there is no system books: access, kv, "), "{}", said(&unknown));
    let sqlite = run(folder.path(), &["migrate", "--print", "--database-url", "sqlite:box.db"], &[]);
    let sql = String::from_utf8(sqlite.stdout).unwrap();
    assert!(sql.contains("CREATE TABLE IF NOT EXISTS syncline_locks"), "{sql}");
    let schema = run(folder.path(), &["migrate", "--print", "--system", "lock", "--schema", "team"], &[]);
    assert!(String::from_utf8(schema.stdout).unwrap().contains("CREATE TABLE IF NOT EXISTS \"team\".locks"));
    let mistyped =
        run(folder.path(), &["migrate", "--system", "outbox", "--database-url", "sqlite:nowhere.db"], &[]);
    assert_eq!(mistyped.status.code(), Some(1), "{}", said(&mistyped));
    assert!(!folder.path().join("nowhere.db").exists());
}
