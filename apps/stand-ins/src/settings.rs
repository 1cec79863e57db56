//! How the stand-ins behave: how fast they may be asked, what they know, and how often they misbehave.

use std::str::FromStr;
use std::time::Duration;

use syncline_bookshelf::presets;

/// The outside APIs that are stood in for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Api {
    /// NDL Search: the library's catalogue.
    Ndl,
    /// The library's pictures, which anybody may look at as fast as they like.
    Thumbnail,
    /// Google Books.
    Google,
    /// Rakuten Books.
    Rakuten,
    /// An API of no importance, for queues of one's own: it spells words backwards.
    Words,
}

impl Api {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ndl, Self::Thumbnail, Self::Google, Self::Rakuten, Self::Words];

    /// Its name in paths, flags and figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ndl => "ndl",
            Self::Thumbnail => "thumbnail",
            Self::Google => "google",
            Self::Rakuten => "rakuten",
            Self::Words => "words",
        }
    }

    const fn interval_ms(self) -> u64 {
        match self {
            Self::Ndl => presets::FETCH_NDL_SEARCH.interval_ms,
            Self::Google => presets::FETCH_GOOGLE_SEARCH.interval_ms,
            Self::Rakuten => presets::FETCH_RAKUTEN_SEARCH.interval_ms,
            Self::Words => 100,
            Self::Thumbnail => 0,
        }
    }
}

impl FromStr for Api {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let named = Self::ALL.into_iter().find(|api| api.name() == text);
        named.ok_or_else(|| InvalidSetting::Name {
            name: text.to_owned(),
            known: "ndl, thumbnail, google, rakuten, words",
        })
    }
}

/// What one API allows. Whoever asks for more gets a 429.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Least time from the last start or end of a call to the next. Zero: any.
    pub interval: Duration,
    /// Calls at once. Zero: any number.
    pub at_once: u32,
}

/// How many of the books are known where, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// To the library.
    pub library: f64,
    /// With a picture in the library.
    pub thumbnail: f64,
    /// To Google; three in four of these with a picture.
    pub google: f64,
    /// To Rakuten; three in four of these with a picture.
    pub rakuten: f64,
}

impl Default for Shares {
    fn default() -> Self {
        Self { library: 0.95, thumbnail: 0.6, google: 0.6, rakuten: 0.6 }
    }
}

impl Shares {
    /// Sets one of them, written `thumbnail=0.6`.
    pub fn set(&mut self, text: &str) -> Result<(), InvalidSetting> {
        let (name, share) = named_share(text)?;
        let place = match name {
            "library" => &mut self.library,
            "thumbnail" => &mut self.thumbnail,
            "google" => &mut self.google,
            "rakuten" => &mut self.rakuten,
            _ => {
                return Err(InvalidSetting::Name {
                    name: name.to_owned(),
                    known: "library, thumbnail, google, rakuten",
                });
            }
        };
        *place = share;
        Ok(())
    }
}

/// The share of calls that go wrong although they came in time, from 0 to 1 each. The library's pictures always come.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Flaky {
    /// Answered 429.
    pub too_many: f64,
    /// Answered 500.
    pub failing: f64,
    /// Answered rightly, but after [`Settings::slow`].
    pub slow: f64,
    /// Answered 200 with half an answer.
    pub broken: f64,
}

impl Flaky {
    /// What happens where nothing more precise is said.
    pub const USUAL: Self = Self { too_many: 0.1, failing: 0.02, slow: 0.02, broken: 0.0 };
}

impl FromStr for Flaky {
    type Err = InvalidSetting;

    /// `429=0.1,500=0.02,slow=0.02,broken=0.01`, each as often as one likes.
    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        let mut flaky = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (name, share) = named_share(part)?;
            match name {
                "429" => flaky.too_many = share,
                "500" => flaky.failing = share,
                "slow" => flaky.slow = share,
                "broken" => flaky.broken = share,
                _ => {
                    return Err(InvalidSetting::Name {
                        name: name.to_owned(),
                        known: "429, 500, slow, broken",
                    });
                }
            }
        }
        let sum = flaky.too_many + flaky.failing + flaky.slow + flaky.broken;
        if sum > 1.0 { Err(InvalidSetting::Sum { sum }) } else { Ok(flaky) }
    }
}

/// What a 429 says about when to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// Nothing.
    Never,
    /// Always this many seconds.
    Seconds(u64),
    /// By turns: nothing, one second, and the same as a date.
    Mixed,
}

impl FromStr for RetryAfter {
    type Err = InvalidSetting;

    fn from_str(text: &str) -> Result<Self, InvalidSetting> {
        match text {
            "never" => Ok(Self::Never),
            "mixed" => Ok(Self::Mixed),
            seconds => seconds.parse().map(Self::Seconds).map_err(|_| InvalidSetting::RetryAfter),
        }
    }
}

/// Everything that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which books there are.
    pub seed: u64,
    /// Where they are known.
    pub shares: Shares,
    /// What goes wrong.
    pub flaky: Flaky,
    /// What a 429 says.
    pub retry_after: RetryAfter,
    /// How long every answer takes.
    pub latency: Duration,
    /// How long a slow one takes.
    pub slow: Duration,
    /// Most records on one page of the library, whatever is asked for.
    pub page_records: u32,
    /// How fast each API may be asked, in the order of [`Api::ALL`].
    pub paces: [Pace; Api::ALL.len()],
}

impl Default for Settings {
    /// The paces of the bookshelf's own table.
    fn default() -> Self {
        let pace = |api: Api| {
            let interval = Duration::from_millis(api.interval_ms());
            Pace { interval, at_once: u32::from(!interval.is_zero()) }
        };
        Self {
            seed: 1,
            shares: Shares::default(),
            flaky: Flaky::default(),
            retry_after: RetryAfter::Mixed,
            latency: Duration::ZERO,
            slow: Duration::from_secs(3),
            page_records: 50,
            paces: Api::ALL.map(pace),
        }
    }
}

impl Settings {
    /// How fast an API may be asked.
    #[must_use]
    pub fn pace(&self, api: Api) -> Pace {
        self.paces[api as usize]
    }

    /// Sets how fast an API may be asked.
    pub fn set_pace(&mut self, api: Api, pace: Pace) {
        self.paces[api as usize] = pace;
    }

    /// Sets an API's interval, written `google=100`, in milliseconds. 0 lifts the limit on calls at once too.
    pub fn set_interval(&mut self, text: &str) -> Result<(), InvalidSetting> {
        let (name, ms) = text.split_once('=').ok_or(InvalidSetting::Pair { text: text.to_owned() })?;
        let api: Api = name.parse()?;
        let ms: u32 = ms.parse().map_err(|_| InvalidSetting::Milliseconds { text: ms.to_owned() })?;
        self.set_pace(api, Pace { interval: Duration::from_millis(ms.into()), at_once: u32::from(ms > 0) });
        Ok(())
    }
}

/// Why the stand-ins cannot behave like that.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidSetting {
    /// There is no such thing to set.
    #[error("there is no {name:?} to set; there are {known}")]
    Name {
        /// What was named.
        name: String,
        /// What could have been.
        known: &'static str,
    },
    /// Not `name=value`.
    #[error("{text:?} is not of the form NAME=VALUE")]
    Pair {
        /// What it is.
        text: String,
    },
    /// Not a share.
    #[error("{text:?} is not a share; it must be a number from 0 to 1")]
    Share {
        /// What it is.
        text: String,
    },
    /// More calls go wrong than there are.
    #[error("the shares add up to {sum}; all calls together are 1")]
    Sum {
        /// How many.
        sum: f64,
    },
    /// Not a time.
    #[error("{text:?} is not a number of milliseconds")]
    Milliseconds {
        /// What it is.
        text: String,
    },
    /// Not something a 429 can say.
    #[error("must be `never`, `mixed` or a number of seconds")]
    RetryAfter,
}

fn named_share(text: &str) -> Result<(&str, f64), InvalidSetting> {
    let (name, share) = text.split_once('=').ok_or(InvalidSetting::Pair { text: text.to_owned() })?;
    let share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.map(|share| (name, share)).ok_or_else(|| InvalidSetting::Share { text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_04_shares_of_misbehaviour_are_read_and_bounded() {
        let flaky: Flaky = "429=0.2,slow=0.05".parse().unwrap();
        assert_eq!(flaky, Flaky { too_many: 0.2, slow: 0.05, ..Flaky::default() });
        assert_eq!("".parse(), Ok(Flaky::default()));
        for (text, message) in [
            ("429", "\"429\" is not of the form NAME=VALUE"),
            ("430=0.1", "there is no \"430\" to set; there are 429, 500, slow, broken"),
            ("429=2", "\"429=2\" is not a share; it must be a number from 0 to 1"),
            ("429=NaN", "\"429=NaN\" is not a share; it must be a number from 0 to 1"),
            ("429=0.75,500=0.5", "the shares add up to 1.25; all calls together are 1"),
        ] {
            assert_eq!(text.parse::<Flaky>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn qu_03_the_usual_paces_are_those_of_the_table_and_each_can_be_set() {
        let mut settings = Settings::default();
        let intervals = Api::ALL.map(|api| settings.pace(api).interval.as_millis());
        assert_eq!(intervals, [50, 0, 100, 500, 100]);
        settings.set_interval("rakuten=20").unwrap();
        settings.set_interval("google=0").unwrap();
        assert_eq!(settings.pace(Api::Rakuten), Pace { interval: Duration::from_millis(20), at_once: 1 });
        assert_eq!(settings.pace(Api::Google).at_once, 0);
        assert!(settings.set_interval("amazon=1").is_err() && settings.set_interval("ndl=x").is_err());
    }
}
