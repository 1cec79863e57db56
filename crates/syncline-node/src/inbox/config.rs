//! `[[entities]]`: which kinds of entities are taken from elsewhere, and which of them may be edited here.
//!
//! Parts may tell of kinds of their own; a declaration of one of them only says whether it may be edited.

use std::fmt;

use syncline_core::outbox::EntityType;
use syncline_store::inbox::TYPES_MAX;

use crate::config::{Settings, setting};

/// A kind of entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityKind {
    /// What it is called.
    pub entity_type: EntityType,
    /// Whether it may be edited here.
    pub editable: bool,
}

/// An entity type that stands for a file, told by the part that receives such files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileType {
    /// What it is called.
    pub name: &'static str,
    /// Where its files are posted to.
    pub path: &'static str,
}

/// The kinds of a file, after those that parts that are on told of.
pub(crate) fn read(settings: &Settings<'_>) -> Vec<EntityKind> {
    let mut entities: Vec<EntityKind> = settings.told_by_parts_on::<EntityKind>().cloned().collect();
    let mut declared = Vec::new();
    for section in settings.sections("entities").unwrap_or_default() {
        section.missing("name", "a name such as order");
        let editable = section.boolean("settings").unwrap_or(false);
        if let Some(name) = section.text("name") {
            match EntityType::new(name.value) {
                _ if settings.told::<FileType>().any(|file| file.name == name.value) => {
                    section.wrong(&name, format!("{} stands for files and is no entity", name.value));
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
                    entities.push(EntityKind { entity_type, editable });
                }
                Err(error) => section.wrong(&name, format!("{error}, found {:?}", name.value)),
            }
        }
        section.finish();
    }
    entities
}

/// A kind as a table of the file.
pub(super) fn print(f: &mut fmt::Formatter<'_>, kind: &EntityKind) -> fmt::Result {
    writeln!(f, "\n[[entities]]")?;
    setting(f, "name", kind.entity_type.as_str())?;
    setting(f, "settings", kind.editable)
}
