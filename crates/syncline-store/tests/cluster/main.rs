//! All systems on a cluster that fails over: the primary is killed, frozen, cut off or switched over, again and again, while
//! every port is in use. Nothing acknowledged is lost, nothing is done twice, no lock has two holders, and no store is opened
//! again.
//!
//! `SYNCLINE_ROUNDS` sets how often. It prints how long writes stood still.

#![cfg(test)]

mod hold;
mod load;

use std::time::{Duration, Instant};

use syncline_sim::patroni::{Member, Patroni};
use syncline_sim::postgres::Error;
use syncline_sim::until;
use syncline_store::Store;
use tokio::task::block_in_place;

use load::Load;

const ROUNDS_DEFAULT: usize = 2;
/// So much goes on before each blow, and after it.
const WRITES_BETWEEN: u64 = 50;

/// So long they may take.
const WRITES_WITHIN: Duration = Duration::from_secs(100);

/// What happens to a primary.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Killed,
    CutOff,
    Frozen,
    SwitchedOver,
}

const HARMS: [Harm; 4] = [Harm::Killed, Harm::CutOff, Harm::Frozen, Harm::SwitchedOver];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn op_02_on_postgres_a_cluster_that_fails_over_loses_and_doubles_nothing() {
    let rounds = std::env::var("SYNCLINE_ROUNDS").map_or(ROUNDS_DEFAULT, |rounds| rounds.parse().unwrap());
    let mut cluster = match block_in_place(Patroni::start) {
        Err(Error::NotRoot) => return println!("not tested: only root may make networks"),
        started => started.unwrap(),
    };
    let store = Store::open(&cluster.url("postgres")).await.unwrap();
    let load = Load::start(&store);
    let mut pauses = Vec::new();
    for (round, harm) in (0..rounds).zip(HARMS.iter().cycle()) {
        more(&load, &cluster).await;
        let primary = block_in_place(|| cluster.primary()).expect("a whole cluster has a primary");
        let since = Instant::now();
        block_in_place(|| strike(&mut cluster, primary, *harm));
        load.longest_pause();
        until_followed(&cluster, primary).await;
        more(&load, &cluster).await;
        let pause = load.longest_pause();
        println!(
            "round {round}: {harm:?}, writes stood still for {pause:.1?} ({:.1?} in all)",
            since.elapsed()
        );
        pauses.push(pause);
        block_in_place(|| mend(&mut cluster, primary, *harm));
        block_in_place(|| cluster.wait_until_whole()).unwrap();
    }
    let report = load.finish(&store).await;
    let longest = pauses.iter().max().copied().unwrap_or_default();
    println!("rounds={rounds} longest_pause={longest:.1?} {report}");
    store.close().await;
}

/// Writes go on. If they do not, the members are asked what they think.
async fn more(load: &Load, cluster: &Patroni) {
    if tokio::time::timeout(WRITES_WITHIN, load.more(WRITES_BETWEEN)).await.is_err() {
        panic!("no writes for {WRITES_WITHIN:?}:\n{}", block_in_place(|| cluster.describe()));
    }
}

fn strike(cluster: &mut Patroni, primary: Member, harm: Harm) {
    match harm {
        Harm::Killed => cluster.kill(primary),
        Harm::CutOff => cluster.cut_off(primary),
        Harm::Frozen => cluster.freeze(primary),
        Harm::SwitchedOver => cluster.switch_over(primary),
    }
    .unwrap();
}

fn mend(cluster: &mut Patroni, primary: Member, harm: Harm) {
    match harm {
        Harm::Killed => cluster.start_member(primary),
        Harm::CutOff => cluster.reconnect(primary),
        Harm::Frozen => cluster.thaw(primary),
        Harm::SwitchedOver => Ok(()),
    }
    .unwrap();
}

async fn until_followed(cluster: &Patroni, from: Member) {
    // Looking takes seconds where a member does not answer.
    let look = || block_in_place(|| cluster.primary());
    until("another primary", async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        look().is_some_and(|primary| primary != from)
    })
    .await;
}
