//! What has to be true when everything is calm.

use std::collections::{BTreeMap, BTreeSet};

use syncline_core::state::Stored;
use syncline_core::state::json::Json;

use super::party::{Fate, Wish, value};
use super::world::World;

/// What a plain reader finds in storage: the listed ids and their values, in whatever layout.
pub(crate) fn stored(storage: &BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
    let mut ids = BTreeSet::new();
    let whole = storage.get("trackedEntities:index").map(|text| Json::read(text).expect("an index"));
    let layout = whole.as_ref().and_then(|json| json.member("layout")?.as_text()).unwrap_or("B").to_owned();
    let shards = format!("trackedEntities:index:{}:", &layout[1..]);
    for (key, text) in storage {
        if key == "trackedEntities:index" || layout.starts_with('C') && key.starts_with(&shards) {
            let json = Json::read(text).expect("an index");
            let Some(Json::List(list)) = json.member("ids") else { panic!("{text}") };
            ids.extend(list.iter().map(|id| id.as_text().expect("an id").to_owned()));
        }
    }
    let packed = storage.get("trackedEntities").map(|text| Json::read(text).expect("entities"));
    let find = |id: &String| {
        let stored = if layout == "A" {
            Stored::from_json(packed.as_ref()?.member(id)?.clone())
        } else {
            Stored::read(storage.get(&format!("trackedEntity:{id}"))?)
        };
        Some(stored.expect("a value").value.text().to_owned())
    };
    ids.into_iter().map(|id| (id.clone(), find(&id))).collect()
}

/// Judges a phase: `before` is what was stored when it began.
pub(crate) fn judge(world: &World, before: &BTreeMap<String, Option<String>>, dead: &[(Wish, Fate)]) {
    let after = stored(&world.storage);
    let fates: Vec<(Wish, Fate)> = world
        .parties
        .iter()
        .flatten()
        .flat_map(|party| party.fates.clone())
        .chain(dead.iter().cloned())
        .collect();
    for (wish, fate) in &fates {
        assert!(*fate != Fate::Open || dead.iter().any(|(other, _)| other == wish), "{wish:?} never ended");
    }
    let ids: BTreeSet<String> = before.keys().chain(after.keys()).cloned().collect();
    let wished = fates
        .iter()
        .filter_map(|(wish, _)| if let Wish::Put(id, _) = wish { Some(id.clone()) } else { None });
    for id in ids.into_iter().chain(wished).collect::<BTreeSet<_>>() {
        judge_entity(&id, before.get(&id), after.get(&id), &fates, world.vanished);
    }
    for party in world.parties.iter().flatten() {
        let Some(replica) = party.as_replica() else { continue };
        assert!(party.is_ready, "a replica never got ready");
        let shown: BTreeMap<String, Option<String>> =
            replica.entities().map(|(id, value)| (id.to_owned(), Some(value.text().to_owned()))).collect();
        assert_eq!(shown, after, "a replica shows something else than storage says; {:#?}", world.storage);
        let view = party.view.iter().map(|(id, value)| (id.clone(), Some(value.text().to_owned()))).collect();
        assert_eq!(shown, view, "the view was not told");
    }
}

fn judge_entity(
    id: &str,
    before: Option<&Option<String>>,
    after: Option<&Option<String>>,
    fates: &[(Wish, Fate)],
    vanished: bool,
) {
    assert_ne!(after, Some(&None), "the index lists {id}, which is not stored");
    let of = |fate: Fate| {
        let fates = fates.iter().filter(move |(_, other)| *other == fate);
        fates.filter(move |(wish, _)| match wish {
            Wish::Put(other, _) | Wish::Remove(other) => other == id,
            Wish::Reset => true,
            Wish::Layout(_) => false,
        })
    };
    // What died half-way, or was stored before storage lost it, may have happened or not.
    let maybe: Vec<&Wish> = of(Fate::Open).chain(of(Fate::Doubtful)).map(|(wish, _)| wish).collect();
    let done: Vec<&Wish> = of(Fate::Stored).map(|(wish, _)| wish).collect();
    let puts = done.iter().filter(|wish| matches!(wish, Wish::Put(..))).count();
    let all: Vec<&Wish> = done.iter().chain(&maybe).copied().collect();
    let only_puts = all.iter().all(|wish| matches!(wish, Wish::Put(..)));
    let only_removals = all.iter().all(|wish| !matches!(wish, Wish::Put(..)));
    if only_puts && (before.is_some() && !vanished || puts > 0) {
        assert!(after.is_some(), "{id} is lost: {all:?}");
    }
    // What somebody who had not noticed wrote again was not there when it was removed.
    if only_removals && (before.is_none() || !done.is_empty() && !vanished) {
        assert!(after.is_none(), "{id} is back, its removal was lost: {all:?}");
    }
    let Some(Some(text)) = after else { return };
    let possible =
        all.iter().any(|wish| matches!(wish, Wish::Put(_, number) if value(*number).text() == text));
    let unchanged = before == after && (puts == 0 || !only_puts || vanished);
    assert!(possible || unchanged, "{id} is {text}, which is lost or from nowhere: {before:?}, {all:?}");
}
