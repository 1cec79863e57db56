//! Statements that both engines say the same way.

/// name, epoch, floor.
pub(crate) const OPEN: &str = "INSERT INTO syncline.state_spaces (name, epoch, floor) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING";
pub(crate) const COUNT_SPACES: &str = "SELECT count(*) FROM syncline.state_spaces";
pub(crate) const SPACE: &str = "SELECT epoch, last, forgotten, floor, floor_number, entities, bytes FROM syncline.state_spaces WHERE name = $1";
pub(crate) const NUMBER: &str = "SELECT last FROM syncline.state_spaces WHERE name = $1";
/// name, last, forgotten, floor, floor_number, entities, bytes.
pub(crate) const KEEP_SPACE: &str = "UPDATE syncline.state_spaces SET last = $2, forgotten = $3, floor = $4, floor_number = $5, \
     entities = $6, bytes = $7 WHERE name = $1";
/// space, after, last, limit: the numbers of a page and what their values weigh.
pub(crate) const WEIGH: &str = "SELECT number, bytes FROM syncline.state_entities WHERE space = $1 AND number > $2 AND number <= $3 \
     ORDER BY number LIMIT $4";
/// space, after, last of the page.
pub(crate) const PAGE: &str = "SELECT id, stamp, live, value FROM syncline.state_entities WHERE space = $1 AND number > $2 \
     AND number <= $3 ORDER BY number";
/// space, floor.
pub(crate) const RESET: &str = "DELETE FROM syncline.state_entities WHERE space = $1 AND stamp <= $2";
/// space, floor: rows and bytes above it.
pub(crate) const MEASURE: &str = "SELECT count(*), CAST(coalesce(sum(bytes), 0) AS bigint) FROM syncline.state_entities \
     WHERE space = $1 AND stamp > $2";
/// after, limit.
pub(crate) const LIST: &str =
    "SELECT name, entities, bytes, last FROM syncline.state_spaces WHERE name > $1 ORDER BY name LIMIT $2";
/// name. Its entities go with it.
pub(crate) const REMOVE: &str = "DELETE FROM syncline.state_spaces WHERE name = $1";
/// Spaces that were made by being asked for, as earlier versions did.
pub(crate) const FORGET_UNUSED: &str = "DELETE FROM syncline.state_spaces WHERE last = 0";
/// space, limit: the oldest removals.
pub(crate) const OLDEST_REMOVED: &str = "SELECT number FROM syncline.state_entities WHERE space = $1 AND NOT live \
     ORDER BY number LIMIT $2";
/// stamp: one of the spaces with removals before it.
pub(crate) const FORGETFUL: &str =
    "SELECT space FROM syncline.state_entities WHERE NOT live AND stamp < $1 LIMIT 1";
/// space, stamp, limit.
pub(crate) const REMOVED: &str = "SELECT number FROM syncline.state_entities WHERE space = $1 AND NOT live AND stamp < $2 \
     ORDER BY stamp LIMIT $3";
/// space, number.
pub(crate) const FORGET: &str = "DELETE FROM syncline.state_entities WHERE space = $1 AND number = $2";
