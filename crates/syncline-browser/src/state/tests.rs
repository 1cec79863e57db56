//! The binding as JavaScript drives it, without JavaScript.

use super::*;

const WALL_MS: f64 = 1_730_000_000_000.0;

/// A storage that answers at once; what else was wanted is returned in order.
#[derive(Default)]
struct World {
    keys: std::collections::BTreeMap<String, String>,
    told: Vec<String>,
}

impl World {
    fn tell(&mut self, replica: &mut StateReplica, input: &str) {
        let mut inputs = vec![input.replace('|', "\0")];
        while let Some(input) = inputs.pop() {
            let out = replica.handle(1.0, WALL_MS, &input);
            for effect in out.split('\u{1}').skip(1) {
                let fields: Vec<&str> = effect.split('\0').collect();
                match fields[0] {
                    "get" => {
                        let contents = |key: &&str| self.keys.get(*key).cloned().unwrap_or_default();
                        let found: Vec<String> =
                            fields[2..].iter().map(|key| format!("\0{key}\0{}", contents(key))).collect();
                        inputs.push(format!("got\0{}{}", fields[1], found.concat()));
                    }
                    "set" => {
                        for pair in fields[2..].chunks(2) {
                            self.keys.insert(pair[0].to_owned(), pair[1].to_owned());
                        }
                        inputs.push(format!("stored\0{}", fields[1]));
                    }
                    "list" => {
                        let keys: Vec<&str> = self.keys.keys().map(String::as_str).collect();
                        inputs.push(format!("listed\0{}\0{}", fields[1], keys.join("\0")));
                    }
                    _ => self.told.push(effect.replace('\0', "|")),
                }
            }
        }
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }
}

fn loaded() -> (World, StateReplica) {
    let (mut world, mut replica) = (World::default(), StateReplica::new(7, 1, false, false, None));
    world.tell(&mut replica, "start");
    assert_eq!(world.told(), ["ready"]);
    (world, replica)
}

#[test]
fn st_11_an_operation_renders_is_stored_and_is_told_in_this_order() {
    let (mut world, mut replica) = loaded();
    world.tell(&mut replica, "put|1|a|{\"checked\":true}");
    let told = world.told();
    assert_eq!(told[..2], ["render|a|{\"checked\":true}", "resolve|1"]);
    assert!(told[2].starts_with("send|1|{\"action\":\"entityDelta\""), "{told:?}");
    assert!(world.keys["trackedEntity:a"].contains("\"checked\":true"));
    world.tell(&mut replica, "remove|2|a|nobody");
    assert_eq!(world.told()[..2], ["clear", "resolve|2"]);
}

#[test]
fn st_36_settings_are_one_document_and_what_is_none_is_refused() {
    let (mut world, mut replica) = loaded();
    world.tell(&mut replica, "set-settings|1|[]");
    assert_eq!(world.told(), ["reject|1|value"]);
    world.tell(&mut replica, "set-settings|2|{\"size\":2}");
    assert_eq!(world.told(), ["settings|{\"size\":2}", "resolve|2"]);
    assert_eq!(world.keys["syncSettings"], "{\"size\":2}");
}

#[test]
fn st_26_what_cannot_be_read_changes_nothing_and_operations_are_refused() {
    let (mut world, mut replica) = loaded();
    for text in [
        "",
        "nothing",
        "put",
        "put|x|a|{}",
        "got|1",
        "acked|",
        "set-layout|1|Z",
        "changed|a",
        "answered|x|{}",
        "unanswered|1||x",
    ] {
        world.tell(&mut replica, text);
    }
    world.told();
    world.tell(&mut replica, "put|9|a|[1]");
    assert_eq!(world.told(), ["reject|9|value"]);
    world.tell(&mut replica, "put|10||{}");
    assert_eq!(world.told(), ["reject|10|id"]);
    assert_eq!(replica.layout(), 'B');
}

#[test]
fn st_22_layouts_are_chosen_by_letter() {
    let (mut world, mut replica) = loaded();
    world.tell(&mut replica, "put|1|a|{}");
    for (op, layout) in [(2, 'C'), (3, 'A'), (4, 'B')] {
        world.tell(&mut replica, &format!("set-layout|{op}|{layout}"));
        assert!(world.told().contains(&format!("resolve|{op}")), "{layout}");
        assert_eq!(replica.layout(), layout);
    }
}

#[test]
fn st_12_only_keys_of_ours_are_looked_at() {
    for key in
        ["syncSettings", "schemaVersion", "trackedEntities", "trackedEntities:index", "trackedEntity:a"]
    {
        assert!(is_state_key(key), "{key}");
    }
    for key in ["theirs", "", "syncSettings2", "trackedEntity:a\0b", "trackedEntity:a\u{1}"] {
        assert!(!is_state_key(key), "{key:?}");
    }
}
