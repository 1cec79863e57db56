//! `[[entities]]`: which kinds of entities are taken from elsewhere, and which of them may be edited here.
//!
//! Those of the calls are there without being declared; a declaration of one of them only says whether it may be edited.

use syncline_core::outbox::EntityType;
use syncline_store::inbox::TYPES_MAX;

use super::reader::Section;

/// The types that are there without being declared.
const ENTITY_TYPES: [&str; 7] =
    ["call_log", "recording", "registered_number", "routing_rule", "ivr_flow", "schedule", "announcement"];

/// The type whose entries stand for recordings, which travel by themselves and are not kept as entities.
pub(crate) const RECORDING_FILE: &str = "recording_file";

/// The kinds that are what happened, and not what somebody set.
const HAPPENED: [&str; 2] = ["call_log", "recording"];

/// A kind of entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// What it is called.
    pub entity_type: EntityType,
    /// Whether it may be edited here.
    pub settings: bool,
}

/// The kinds of a file, after those that are always there.
pub(super) fn read(root: &Section<'_>) -> Vec<Entity> {
    let known = ENTITY_TYPES.iter().filter_map(|name| EntityType::new(*name).ok());
    let mut entities: Vec<Entity> = known
        .map(|entity_type| Entity { settings: !HAPPENED.contains(&entity_type.as_str()), entity_type })
        .collect();
    let mut declared = Vec::new();
    for section in root.sections("entities").unwrap_or_default() {
        section.missing("name", "a name such as voicemail");
        let settings = section.boolean("settings").unwrap_or(false);
        if let Some(name) = section.text("name") {
            match EntityType::new(name.value) {
                _ if name.value == RECORDING_FILE => {
                    section.wrong(&name, format!("{RECORDING_FILE} stands for files and is no entity"));
                }
                _ if declared.contains(&name.value) => {
                    section.wrong(&name, format!("{:?} is declared twice", name.value));
                }
                Ok(_) if entities.len() >= TYPES_MAX => {
                    section.wrong(&name, format!("at most {TYPES_MAX} kinds of entities are allowed"));
                }
                Ok(entity_type) => {
                    declared.push(name.value);
                    entities.retain(|entity| entity.entity_type != entity_type);
                    entities.push(Entity { entity_type, settings });
                }
                Err(error) => section.wrong(&name, format!("{error}, found {:?}", name.value)),
            }
        }
        section.finish();
    }
    debug_assert!(entities.len() >= ENTITY_TYPES.len());
    entities
}
