//! Rooms by example, and against a model that remembers everything.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

type TestTable = RoomTable<BuildHasherDefault<DefaultHasher>>;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn table(max_rooms: usize, max_of_address: usize) -> TestTable {
    RoomTable::new(max_rooms, max_of_address, BuildHasherDefault::default())
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_ms(seconds * 1_000)
}

fn id(number: usize) -> SessionId {
    SessionId::new(&format!("session-{number}")).unwrap()
}

fn visitor<'a>(room: &'a str, user: Option<&'a str>) -> Visitor<'a> {
    Visitor { room, user, verified: false, visible: true, address: HERE }
}

fn beat(table: &mut TestTable, seconds: u64, session: usize, visitor: Visitor<'_>) -> Vec<RoomChange> {
    let mut changes = Vec::new();
    table.beat(at(seconds), &id(session), &visitor, &mut changes).unwrap();
    changes
}

fn counts(sessions: u64, visible: u64, people: u64) -> RoomCounts {
    RoomCounts { sessions, visible, people }
}

#[test]
fn vw_30_three_tabs_of_one_user_are_one_person() {
    let mut table = table(9, 9);
    let lobby = || "lobby".to_owned();
    let ann = || "ann".to_owned();
    let first = beat(&mut table, 0, 1, visitor("lobby", Some("ann")));
    assert_eq!(first, [RoomChange::Occupied(lobby()), RoomChange::Joined(lobby(), ann())]);
    assert_eq!(beat(&mut table, 0, 2, visitor("lobby", Some("ann"))), [RoomChange::Counted(lobby())]);
    beat(&mut table, 0, 3, Visitor { visible: false, ..visitor("lobby", Some("ann")) });
    assert_eq!(table.counts("lobby"), counts(3, 2, 1));
    assert_eq!(beat(&mut table, 30, 3, Visitor { visible: false, ..visitor("lobby", Some("ann")) }), []);
    // Nobody in particular is a person each.
    beat(&mut table, 30, 4, visitor("lobby", None));
    beat(&mut table, 30, 5, visitor("lobby", None));
    assert_eq!(table.counts("lobby"), counts(5, 4, 3));
    let people: Vec<Person> = table.people("lobby", None).collect();
    assert_eq!(people, [Person { user: ann(), sessions: 3, visible: 2, verified: false }]);
    // The first two expire; the third keeps the person there.
    let mut changes = Vec::new();
    assert!(!table.expire(at(60), &mut changes));
    assert!(changes.iter().all(|change| *change == RoomChange::Counted(lobby())), "{changes:?}");
    assert_eq!(table.counts("lobby"), counts(3, 2, 3));
    let mut changes = Vec::new();
    table.bye(at(61), &id(3), &mut changes);
    assert_eq!(changes, [RoomChange::Left(lobby(), ann())]);
    table.bye(at(61), &id(3), &mut changes);
    let mut changes = Vec::new();
    assert!(!table.expire(at(90), &mut changes));
    assert_eq!(changes.last(), Some(&RoomChange::Vacated(lobby())));
    assert!(table.is_empty() && table.rooms(None).next().is_none() && table.opened.is_empty());
}

#[test]
fn vw_30_a_session_is_in_one_room_and_a_name_is_verified_while_all_its_sessions_are() {
    let mut table = table(9, 9);
    beat(&mut table, 0, 1, visitor("a", Some("ann")));
    let moved = beat(&mut table, 1, 1, visitor("b", Some("ann")));
    let words: Vec<&str> = moved.iter().map(RoomChange::room).collect();
    assert_eq!(words, ["a", "a", "b", "b"], "{moved:?}");
    assert_eq!((table.counts("a"), table.counts("b")), (counts(0, 0, 0), counts(1, 1, 1)));
    let verified = |table: &TestTable| table.people("b", None).next().unwrap().verified;
    assert!(!verified(&table));
    beat(&mut table, 2, 1, Visitor { verified: true, ..visitor("b", Some("ann")) });
    assert!(verified(&table));
    beat(&mut table, 2, 2, visitor("b", Some("ann")));
    assert!(!verified(&table), "somebody else may have said that name");
}

#[test]
fn vw_30_rooms_are_bounded_and_a_flood_from_one_address_leaves_room_for_others() {
    let mut table = table(5, 3);
    let elsewhere = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
    let mut open = |session: usize, room: &str, address| {
        let asked = Visitor { address, ..visitor(room, None) };
        table.beat(at(0), &id(session), &asked, &mut Vec::new())
    };
    for n in 0..3 {
        open(n, &format!("flood {n}"), HERE).unwrap();
    }
    assert_eq!(open(3, "flood 3", HERE), Err(RoomRefused::TooManyOfAddress { max: 3 }));
    open(4, "flood 0", HERE).unwrap();
    open(5, "real", elsewhere).unwrap();
    open(3, "real", HERE).expect("a room that is there may be entered");
    open(6, "real 2", elsewhere).unwrap();
    assert_eq!(open(7, "real 3", elsewhere), Err(RoomRefused::TooMany { max: 5 }));
    // A refusal leaves a session where it was.
    assert_eq!(open(5, "real 3", elsewhere), Err(RoomRefused::TooMany { max: 5 }));
    assert_eq!(table.counts("real").sessions, 2);
    assert_eq!(
        table.rooms(Some("flood 1")).map(|(name, _)| name).collect::<Vec<_>>(),
        ["flood 2", "real", "real 2"]
    );
    let mut changes = Vec::new();
    table.expire(at(60), &mut changes);
    assert!(table.opened.is_empty(), "what is over counts for nobody");
}

#[test]
fn vw_30_names_are_bounded() {
    let longest = "r".repeat(ROOM_NAME_MAX_BYTES);
    for good in ["lobby", "日本", "a b/c?d", longest.as_str()] {
        assert_eq!(check_room_name("room", good), Ok(()));
    }
    let longer = "r".repeat(ROOM_NAME_MAX_BYTES + 1);
    for bad in ["", "a\nb", "\u{7f}", longer.as_str()] {
        assert_eq!(check_room_name("user", bad), Err(RoomRefused::Name { what: "user" }), "{bad:?}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Beat { session: usize, room: usize, user: Option<usize>, visible: bool },
    Bye { session: usize },
    Expire,
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let beat = (0..12_usize, 0..4_usize, proptest::option::of(0..3_usize), any::<bool>())
        .prop_map(|(session, room, user, visible)| Step::Beat { session, room, user, visible });
    let bye = (0..12_usize).prop_map(|session| Step::Bye { session });
    (0..25_u64, prop_oneof![6 => beat, 1 => bye, 1 => Just(Step::Expire)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Sessions that come, go, move, fall silent and change their names, against a list of all of them.
    #[test]
    fn vw_30_rooms_are_what_a_list_of_all_sessions_says(steps in prop::collection::vec(step(), 1..120)) {
        let mut table = table(100, 100);
        let mut model: BTreeMap<usize, (usize, Option<usize>, bool, u64)> = BTreeMap::new();
        let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut now = 0;
        for (passed, step) in steps {
            now += passed;
            let mut changes = Vec::new();
            match step {
                Step::Beat { session, room, user, visible } => {
                    let (name, user_name) = (format!("room {room}"), user.map(|user| format!("user {user}")));
                    let asked = Visitor { visible, ..visitor(&name, user_name.as_deref()) };
                    table.beat(at(now), &id(session), &asked, &mut changes).unwrap();
                    model.insert(session, (room, user, visible, now + 60));
                }
                Step::Bye { session } => {
                    table.bye(at(now), &id(session), &mut changes);
                    model.remove(&session);
                }
                Step::Expire => {}
            }
            while table.expire(at(now), &mut changes) {}
            model.retain(|_, (.., until)| *until > now);
            // Events alternate, and say who is there.
            for change in changes {
                match change {
                    RoomChange::Occupied(room) => prop_assert!(told.insert(room, BTreeSet::new()).is_none()),
                    RoomChange::Vacated(room) => prop_assert!(told.remove(&room).is_some_and(|people| people.is_empty())),
                    RoomChange::Joined(room, user) => prop_assert!(told.get_mut(&room).unwrap().insert(user)),
                    RoomChange::Left(room, user) => prop_assert!(told.get_mut(&room).unwrap().remove(&user)),
                    RoomChange::Counted(_) => {}
                }
            }
            for room in 0..4 {
                let name = format!("room {room}");
                let there: Vec<_> = model.values().filter(|(in_room, ..)| *in_room == room).collect();
                let users: BTreeSet<String> =
                    there.iter().filter_map(|(_, user, ..)| user.map(|user| format!("user {user}"))).collect();
                let anonymous = there.iter().filter(|(_, user, ..)| user.is_none()).count();
                let visible = there.iter().filter(|(_, _, visible, _)| *visible).count();
                let expected = counts(there.len() as u64, visible as u64, (users.len() + anonymous) as u64);
                prop_assert_eq!(table.counts(&name), expected);
                let listed: BTreeSet<String> = table.people(&name, None).map(|person| person.user).collect();
                prop_assert_eq!(&listed, &users);
                prop_assert_eq!(told.get(&name), (!there.is_empty()).then_some(&users));
            }
        }
    }
}
