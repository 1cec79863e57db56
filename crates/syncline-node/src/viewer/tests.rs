//! Viewers in time: expiry, reports, other nodes, a store that fails. The clock is ours, the store is real.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use syncline_core::kv::Version;
use syncline_core::viewer::{REMOVED_PER_EXPIRE, TTL};
use syncline_store::kv::{Applied, Asked, Entry, KeyWatch, Operation, Page, Refusal};
use syncline_store::{Error, Store};
use tokio::task::JoinHandle;

use super::reporting::RETRY_AFTER;
use super::*;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Time that passes when told to.
#[derive(Clone)]
struct Time(Arc<AtomicU64>);

impl Time {
    fn new() -> Time {
        Time(Arc::new(AtomicU64::new(1_000_000)))
    }

    fn pass(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, Ordering::SeqCst);
    }

    fn clock(&self) -> Clock {
        let ms = Arc::clone(&self.0);
        Arc::new(move || Timestamp::from_ms(ms.load(Ordering::SeqCst)))
    }
}

/// The real kv with a switch that makes it fail.
struct Failing {
    inner: Arc<dyn Kv>,
    failing: AtomicBool,
}

impl Failing {
    fn check(&self) -> Result<(), Error> {
        if self.failing.load(Ordering::SeqCst) {
            return Err(Error::Unreachable { store: "test".to_owned(), reason: "switched off".to_owned() });
        }
        Ok(())
    }
}

#[async_trait]
impl Kv for Failing {
    async fn put(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<Version, Error> {
        self.check()?;
        self.inner.put(key, value, ttl).await
    }

    async fn put_new(&self, key: &Key, value: &str, ttl: Option<Duration>) -> Result<bool, Error> {
        self.check()?;
        self.inner.put_new(key, value, ttl).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        self.check()?;
        self.inner.get(key).await
    }

    async fn delete(&self, key: &Key) -> Result<bool, Error> {
        self.check()?;
        self.inner.delete(key).await
    }

    async fn apply(&self, operations: Vec<Operation>) -> Result<Result<Vec<Applied>, Refusal>, Error> {
        self.check()?;
        self.inner.apply(operations).await
    }

    fn watch(&self) -> Option<KeyWatch> {
        self.inner.watch()
    }

    async fn page(&self, asked: Asked<'_>) -> Result<Page, Error> {
        self.check()?;
        self.inner.page(asked).await
    }

    async fn sweep(&self, limit: usize) -> Result<u64, Error> {
        self.check()?;
        self.inner.sweep(limit).await
    }
}

/// Nodes on one store, with one clock.
struct World {
    time: Time,
    store: Store,
}

/// One of them.
struct Member {
    viewers: Arc<Viewers>,
    kv: Arc<Failing>,
    bus: Bus,
    life: JoinHandle<()>,
}

impl World {
    async fn new() -> World {
        World { time: Time::new(), store: Store::open("sqlite::memory:").await.unwrap() }
    }

    fn node(&self) -> Member {
        let kv = Arc::new(Failing { inner: self.store.kv(), failing: AtomicBool::new(false) });
        let bus = Bus::new();
        let port: Arc<dyn Kv> = kv.clone();
        let config = Settings::default();
        let viewers = Arc::new(Viewers::new(
            &config,
            NodeId::random(),
            port,
            bus.clone(),
            self.time.clock(),
            &Registry::new(),
        ));
        let running = Arc::clone(&viewers);
        let life = tokio::spawn(async move { running.run(CancellationToken::new()).await });
        Member { viewers, kv, bus, life }
    }
}

impl Member {
    async fn beat(&self, id: &str) -> Result<(), Refused> {
        self.viewers.beat(&SessionId::new(id).unwrap(), true, HERE).await
    }

    fn fail(&self, failing: bool) {
        self.kv.failing.store(failing, Ordering::SeqCst);
    }

    /// One tick of the second hand, now.
    async fn tick(&self) {
        self.viewers.read_peers().await;
        self.viewers.tick(0, &mut Snapshot::default()).await;
    }

    async fn watched(&self) -> Audience {
        self.viewers.audience(Gate::Viewers).await
    }
}

const fn known(viewers: u64, visible: u64) -> Audience {
    Audience::Known { viewers, visible }
}

#[tokio::test]
async fn vw_25_first_in_is_occupied_and_last_out_is_vacated_by_bye_or_by_time() {
    let world = World::new().await;
    let node = world.node();
    let mut events = node.bus.listen();
    let mut next = async || loop {
        let event = events.recv().await.unwrap();
        if event.name != "viewer" {
            return event.name;
        }
    };
    let occupancy = node.viewers.occupancy();
    node.beat("a").await.unwrap();
    node.beat("b").await.unwrap();
    assert_eq!(next().await, "viewer.occupied");
    assert!(*occupancy.borrow());
    node.viewers.bye(&SessionId::new("a").unwrap());
    node.viewers.bye(&SessionId::new("b").unwrap());
    assert_eq!(next().await, "viewer.vacated");
    node.beat("a").await.unwrap();
    assert_eq!(next().await, "viewer.occupied");
    world.time.pass(TTL);
    node.tick().await;
    assert_eq!(next().await, "viewer.vacated");
    assert!(!*occupancy.borrow());
}

#[tokio::test]
async fn vw_25_a_room_that_was_empty_unnoticed_is_told_as_left_and_entered() {
    let world = World::new().await;
    let node = world.node();
    node.beat("a").await.unwrap();
    let mut events = node.bus.listen();
    let mut occupancy = node.viewers.occupancy();
    occupancy.mark_unchanged();
    // As when the machine sleeps: an hour later the first to wake is a page.
    world.time.pass(Duration::from_secs(3_600));
    node.beat("a").await.unwrap();
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "viewer.occupied") {
        let name = events.recv().await.unwrap().name;
        told.extend((name != "viewer").then_some(name));
    }
    assert_eq!(told, ["viewer.vacated", "viewer.occupied"]);
    assert!(occupancy.has_changed().unwrap() && *occupancy.borrow());
}

#[tokio::test]
async fn vw_21_nodes_see_each_others_viewers_by_one_key_each() {
    let world = World::new().await;
    let (one, other) = (world.node(), world.node());
    for number in 0..100 {
        one.beat(&format!("s{number}")).await.unwrap();
    }
    let Audience::Known { viewers, .. } = other.watched().await else { panic!("the store is readable") };
    assert!(viewers >= 1, "a promise stands as soon as the heartbeat is answered");
    one.viewers.report().await;
    assert_eq!(other.watched().await, known(100, 100));
    let keys = world.store.kv().list("", 1_000).await.unwrap();
    assert!(keys.len() <= 2, "{keys:?}");
    let snapshot = other.viewers.snapshot();
    assert_eq!(snapshot.viewers, 100);
    assert_eq!(snapshot.nodes.len(), 2);
    assert_eq!(snapshot.nodes[0].viewers, 0, "this node comes first");
}

#[tokio::test]
async fn vw_25_a_second_nodes_first_viewer_does_not_occupy_an_occupied_room() {
    let world = World::new().await;
    let (one, other) = (world.node(), world.node());
    one.beat("a").await.unwrap();
    other.tick().await;
    let mut events = other.bus.listen();
    other.beat("b").await.unwrap();
    other.viewers.bye(&SessionId::new("b").unwrap());
    other.tick().await;
    other.bus.publish("end", &());
    loop {
        let event = events.recv().await.unwrap();
        assert!(!event.name.starts_with("viewer."), "{event:?}");
        if event.name == "end" {
            break;
        }
    }
}

#[tokio::test]
async fn vw_23_a_minute_that_was_watched_is_not_skipped_by_the_node_that_restarts() {
    let world = World::new().await;
    let former = world.node();
    former.beat("a").await.unwrap();
    // As by kill -9: nothing more is said.
    former.life.abort();
    assert!(former.life.await.unwrap_err().is_cancelled());
    world.time.pass(Duration::from_secs(29));
    let next = world.node();
    assert!(matches!(next.watched().await, Audience::Known { viewers: 1.., .. }));
    world.time.pass(TTL + Duration::from_secs(11));
    assert_eq!(next.watched().await, known(0, 0), "and the promise ends when nobody came back");
}

#[tokio::test]
async fn vw_02_the_last_bye_ends_the_promise_at_once() {
    let world = World::new().await;
    let (one, other) = (world.node(), world.node());
    one.beat("a").await.unwrap();
    assert!(matches!(other.watched().await, Audience::Known { viewers: 1, .. }));
    one.viewers.bye(&SessionId::new("a").unwrap());
    one.viewers.report().await;
    assert_eq!(other.watched().await, known(0, 0));
}

#[tokio::test]
async fn vw_06_a_store_that_cannot_be_read_is_unreadable_only_when_it_would_decide() {
    let world = World::new().await;
    let node = world.node();
    node.fail(true);
    assert_eq!(node.watched().await, Audience::Unreadable);
    assert_eq!(node.beat("a").await, Err(Refused::Store));
    assert_eq!(node.watched().await, known(1, 1), "the session counts here all the same");
    node.viewers.beat(&SessionId::new("a").unwrap(), false, HERE).await.unwrap_err();
    assert_eq!(
        node.viewers.audience(Gate::VisibleViewers).await,
        Audience::Unreadable,
        "others may have it in sight"
    );
    node.fail(false);
    world.time.pass(RETRY_AFTER);
    node.beat("a").await.unwrap();
    assert_eq!(node.watched().await, known(1, 1));
}

#[tokio::test]
async fn vw_06_what_other_nodes_promised_stands_while_the_store_is_away() {
    let world = World::new().await;
    let (one, other) = (world.node(), world.node());
    one.beat("a").await.unwrap();
    assert!(matches!(other.watched().await, Audience::Known { viewers: 1, .. }));
    other.fail(true);
    world.time.pass(Duration::from_secs(20));
    assert!(matches!(other.watched().await, Audience::Known { viewers: 1, .. }));
    world.time.pass(TTL);
    assert_eq!(other.watched().await, Audience::Unreadable);
}

#[tokio::test]
async fn vw_21_the_store_is_written_by_time_and_not_by_heartbeat() {
    let world = World::new().await;
    let node = world.node();
    node.beat("first").await.unwrap();
    let writes_before = world.store.stats().unwrap().writes;
    for number in 0..9_000 {
        node.beat(&format!("s{number}")).await.unwrap();
    }
    let writes = world.store.stats().unwrap().writes - writes_before;
    assert!(writes <= 10, "{writes} writes for 9,000 heartbeats");
}

/// A fixed number used to be removed each second. A million sessions that expired together were in the way of every
/// question for minutes, and each question walked over all that were left, with the room locked.
#[tokio::test]
async fn vw_04_sessions_that_went_without_a_word_are_out_of_the_way_after_one_tick() {
    let world = World::new().await;
    let node = world.node();
    for number in 0..=2 * REMOVED_PER_EXPIRE {
        node.beat(&format!("s{number}")).await.unwrap();
    }
    world.time.pass(TTL);
    node.tick().await;
    assert!(!node.viewers.local().sessions.has_expired(node.viewers.now()));
    assert_eq!(node.watched().await, known(0, 0));
}

#[tokio::test]
async fn vw_24_hidden_pages_count_but_not_for_those_who_want_to_be_seen() {
    let world = World::new().await;
    let node = world.node();
    node.viewers.beat(&SessionId::new("a").unwrap(), false, HERE).await.unwrap();
    assert_eq!(node.watched().await, known(1, 0));
    assert_eq!(node.viewers.audience(Gate::VisibleViewers).await, known(1, 0));
    node.beat("a").await.unwrap();
    assert_eq!(node.viewers.audience(Gate::VisibleViewers).await, known(1, 1));
}

fn visitor<'a>(room: &'a str, user: &'a str) -> Visitor<'a> {
    Visitor { room, user: Some(user), verified: false, visible: true, address: HERE }
}

impl Member {
    async fn enter(&self, id: &str, room: &str, user: &str) {
        let id = SessionId::new(id).unwrap();
        self.viewers.beat_in(&id, true, HERE, Some(&visitor(room, user))).await.unwrap();
    }

    /// Shares what this node knows, as every second does.
    async fn share(&self) {
        self.viewers.share_rooms().await;
    }
}

#[tokio::test]
async fn vw_30_a_room_is_one_over_all_nodes_and_so_is_a_person() {
    let world = World::new().await;
    let (one, two) = (world.node(), world.node());
    one.enter("a", "lobby", "ann").await;
    one.enter("b", "lobby", "bob").await;
    two.enter("c", "lobby", "ann").await;
    one.share().await;
    two.share().await;
    for node in [&one, &two] {
        assert!(node.viewers.read_rooms().await);
        let room = node.viewers.room("lobby").await;
        assert_eq!((room.sessions, room.people), (3, 2));
        let (people, more) = node.viewers.people("lobby", None, 10).await;
        let people: Vec<(&str, u32)> =
            people.iter().map(|person| (person.user.as_str(), person.sessions)).collect();
        assert_eq!((people, more), (vec![("ann", 2), ("bob", 1)], false));
        let (rooms, more) = node.viewers.rooms("lo", None, 10).await;
        assert_eq!((rooms.len(), more), (1, false));
    }
    let third = world.node();
    assert_eq!(third.viewers.room_audience(Gate::Viewers, "lobby").await, known(3, 3));
    assert_eq!(third.viewers.room_audience(Gate::Viewers, "elsewhere").await, known(0, 0));
    third.fail(true);
    assert_eq!(third.viewers.room_audience(Gate::Viewers, "elsewhere").await, Audience::Unreadable);
}

#[tokio::test]
async fn vw_30_a_room_is_occupied_and_vacated_once_whatever_the_number_of_nodes() {
    let world = World::new().await;
    let (one, two) = (world.node(), world.node());
    let mut events = two.bus.listen();
    let mut arrivals = two.viewers.room_arrivals();
    let mut next = async || loop {
        let event = events.recv().await.unwrap();
        if !matches!(event.topic(), "viewer") && event.name != "room" {
            return event.name;
        }
    };
    one.enter("a", "lobby", "ann").await;
    one.share().await;
    two.viewers.read_rooms().await;
    assert_eq!(next().await, "room.occupied");
    assert_eq!(&*arrivals.recv().await.unwrap(), "lobby");
    assert_eq!(next().await, "people.joined");
    // The same person through this node is no news, and neither is her going from the other.
    two.enter("c", "lobby", "ann").await;
    one.viewers.bye(&SessionId::new("a").unwrap());
    one.share().await;
    two.viewers.read_rooms().await;
    two.viewers.bye(&SessionId::new("c").unwrap());
    assert_eq!(next().await, "people.left");
    assert_eq!(next().await, "room.vacated");
    assert!(arrivals.try_recv().is_err());
}

#[tokio::test]
async fn vw_30_what_is_shared_ends_with_its_sessions_and_with_its_node() {
    let world = World::new().await;
    let (one, two) = (world.node(), world.node());
    one.enter("a", "lobby", "ann").await;
    one.share().await;
    two.viewers.read_rooms().await;
    assert_eq!(two.viewers.room("lobby").await.people, 1);
    // The node is gone without a word; its record is as it was.
    one.life.abort();
    assert!(one.life.await.unwrap_err().is_cancelled());
    // It may have shared once more: that is written before this, and counts from when it is first seen.
    two.enter("b", "elsewhere", "bob").await;
    two.share().await;
    two.viewers.read_rooms().await;
    world.time.pass(TTL);
    two.viewers.read_rooms().await;
    assert_eq!(two.viewers.room("lobby").await.people, 0);
    assert!(!two.viewers.room("lobby").await.occupied);
}
