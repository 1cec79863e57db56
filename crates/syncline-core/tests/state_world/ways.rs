//! All orders of small cases: every step that can be taken is taken, from every state that can be reached, once.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::ledger;
use super::party::{Fate, Wish};
use super::world::{Bug, Step, World};

/// What was tried.
#[derive(Debug, Default)]
pub(crate) struct Tried {
    pub(crate) states: usize,
    pub(crate) ends: usize,
}

/// Goes every way from `world`; with `crash`, context 0 dies at each step and comes back. `end` is shown every end.
fn explore(world: World, crash: bool, end: &mut impl FnMut(World, &[(Wish, Fate)])) -> Tried {
    let mut seen = HashSet::new();
    let mut tried = Tried::default();
    let mut open = vec![(world, Vec::new())];
    while let Some((world, dead)) = open.pop() {
        let mut hasher = DefaultHasher::new();
        (format!("{world:?}"), format!("{dead:?}")).hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        let steps = world.steps();
        if steps.is_empty() {
            tried.ends += 1;
            end(world, &dead);
            continue;
        }
        for step in steps {
            let mut next = world.clone();
            next.take(step);
            open.push((next, dead.clone()));
        }
        let begun = world.parties[0].as_ref().is_some_and(|party| !party.fates.is_empty());
        if crash && dead.is_empty() && begun {
            let mut next = world;
            let dead = next.parties[0].take().expect("alive").fates;
            next.restart(0);
            open.push((next, dead));
        }
    }
    tried.states = seen.len();
    tried
}

fn put(id: &str, number: u64) -> Wish {
    Wish::Put(id.to_owned(), number)
}

fn remove(id: &str) -> Wish {
    Wish::Remove(id.to_owned())
}

/// A world of replicas in which `x` and `y` are there and everything is calm.
fn settled(replicas: usize, bug: Option<Bug>) -> World {
    let mut world = World::new(None);
    (0..replicas).for_each(|_| world.spawn_replica());
    world.wishes[0] = vec![put("x", 1), put("y", 2)];
    world.calm(10_000);
    world.parties.iter_mut().flatten().for_each(|party| party.fates.clear());
    world.bug = bug;
    world
}

/// Goes every way and judges every end.
fn judged(world: World, crash: bool) -> Tried {
    let before = ledger::stored(&world.storage);
    explore(world, crash, &mut |mut world, dead| {
        world.calm(10_000);
        ledger::judge(&world, &before, dead);
    })
}

fn cases() -> Vec<[Wish; 3]> {
    vec![
        [put("a", 10), put("b", 11), put("c", 12)],
        [put("a", 10), remove("x"), remove("y")],
        [put("a", 10), put("a", 11), remove("x")],
        [put("x", 10), put("x", 11), put("y", 12)],
        [remove("x"), remove("y"), put("a", 10)],
        [put("x", 10), remove("x"), put("a", 11)],
        [Wish::Reset, put("a", 10), put("b", 11)],
    ]
}

/// Context n wishes the n-th of each case's wishes.
pub(crate) fn contexts(count: usize, crash: bool, prompt: bool, bug: Option<Bug>) -> Tried {
    let mut sum = Tried::default();
    // Changes heard of later, and a third context, have many times the orders.
    let cases = cases().into_iter().take(match count {
        2 if prompt => usize::MAX,
        2 => 3,
        _ => 1,
    });
    for wishes in cases {
        let mut world = settled(count, bug);
        world.prompt = prompt;
        world.wishes = wishes.into_iter().take(count).map(|wish| vec![wish]).collect();
        if count > 2 {
            (0..count).for_each(|at| world.take(Step::Wish(at)));
        }
        let tried = judged(world, crash);
        sum.states += tried.states;
        sum.ends += tried.ends;
    }
    sum
}

/// Two contexts with two wishes each.
pub(crate) fn two_each(bug: Option<Bug>) -> Tried {
    let mut world = settled(2, bug);
    world.prompt = true;
    world.wishes = vec![vec![put("a", 10), remove("x")], vec![put("b", 11), put("x", 12)]];
    judged(world, false)
}

/// The plain algorithm alone: in how many of all ends of two additions one is lost.
pub(crate) fn plain_contexts() -> (usize, usize) {
    let mut world = World::new(None);
    world.spawn_plain();
    world.spawn_plain();
    world.wishes = vec![vec![put("a", 1)], vec![put("b", 2)]];
    let mut lost = 0;
    let tried = explore(world, false, &mut |world, _| {
        let told = world.parties.iter().flatten().flat_map(|party| &party.fates);
        assert!(
            told.map(|(_, fate)| *fate).all(|fate| fate == Fate::Stored),
            "everybody was told it is stored"
        );
        lost += usize::from(ledger::stored(&world.storage).len() < 2);
    });
    (lost, tried.ends)
}
