//! Which part of a listing is asked for, where names are listed by what they begin with.

use serde::Deserialize;
use utoipa::IntoParams;

use super::Error;

/// How many are listed when nobody says.
const LIMIT_DEFAULT: usize = 100;

/// What a listing is asked for.
#[derive(Debug, Deserialize, IntoParams)]
pub(crate) struct Range {
    /// Those that begin with this; all if absent.
    #[serde(default)]
    pub(crate) prefix: String,
    /// At most this many, 100 if absent, 1,000 at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

impl Range {
    /// How many are wanted, `most` at most.
    pub(crate) fn limit(&self, most: usize) -> Result<usize, Error> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=most).contains(&limit) {
            return Err(Error::invalid("invalid-limit", format!("limit must be from 1 to {most}")));
        }
        Ok(limit)
    }
}
