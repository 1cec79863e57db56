//! `syncline scan`: from ISBNs to books on the shelf, shown as they arrive.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};
use syncline_client::answer::{items, span, text};
use syncline_client::command::AppCommand;
use syncline_client::output::{self, Shown, Tone, toned};
use syncline_client::{
    Client, Heard, IN_VAIN_MAX, Keys, Listener, Method, Pending, Progress, Refusal, StatusCode, Target,
};

use crate::presets;

/// ISBNs sent at once.
const BATCH: usize = 500;

const EXAMPLES: &str = "\
Examples:
  syncline scan 9784990000011               look it up, wait for book and cover
  syncline scan 4-99-000001-3 9784993861183 ISBN-10 and hyphens are welcome
  syncline scan --file shelf.txt            one a line
  syncline scan - < shelf.txt               the same from standard input
  syncline scan --file shelf.txt --no-wait  only hand them over
  syncline scan - --json < shelf.txt        one JSON object per book, for programs
  syncline demo isbns 20 | syncline scan -  books of the stand-ins

Exit code 1 if any ISBN was refused or any book was not found.";

/// The commands that the bookshelf adds to a program.
#[must_use]
pub fn commands() -> Vec<AppCommand> {
    vec![AppCommand::new("scan", Scan::run)]
}

/// Look books up and put them on the shelf.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
struct Scan {
    #[command(flatten)]
    isbns: Keys,
    /// Do not wait for the books.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    target: Target,
}

/// What became of the ISBNs so far.
struct Scanning<'a> {
    target: &'a Target,
    pending: Pending,
    /// Those of them that are there and only their covers are not.
    coverless: HashSet<String>,
    found: usize,
    covers: usize,
    missing: usize,
    refused: usize,
}

impl Scan {
    async fn run(self) -> anyhow::Result<()> {
        let isbns = self.isbns.some("ISBN")?;
        let client = self.target.client()?;
        // Listened to before anything is sent, or a quick answer would come unheard.
        let listener = if self.no_wait { None } else { Some(Listener::open(&client, "queue,shelf").await?) };
        let mut answers = Vec::new();
        for batch in isbns.chunks(BATCH) {
            let body = json!({ "isbns": batch });
            let path = ["api", "shelf", "scan"];
            answers.push(client.ask(Method::POST, &path, &[], Some(&body)).await?);
        }
        let mut scanning = Scanning::new(&self.target, &answers)?;
        if let Some(listener) = listener {
            scanning.wait(&client, listener).await?;
        }
        scanning.summary(self.no_wait)
    }
}

impl<'a> Scanning<'a> {
    fn new(target: &'a Target, answers: &[Value]) -> anyhow::Result<Self> {
        let mut refused = 0;
        for refusal in answers.iter().flat_map(|answer| items(answer, "refused")) {
            refused += 1;
            let (input, reason) = (text(refusal, "input"), text(refusal, "reason"));
            if target.json {
                output::line(json!({ "isbn": input, "state": "refused", "reason": reason }))?;
            } else {
                let words = toned(Tone::Bad, format_args!("refused: {reason}"));
                output::line(format_args!("{input:<13}  {words}"))?;
            }
        }
        let scans = answers.iter().flat_map(|answer| items(answer, "scans"));
        let pending = Pending::new(scans.map(|scan| text(scan, "isbn").to_owned()));
        Ok(Self { target, pending, coverless: HashSet::new(), found: 0, covers: 0, missing: 0, refused })
    }

    async fn wait(&mut self, client: &Client, mut listener: Listener<'_>) -> anyhow::Result<()> {
        let bar = Progress::new(self.pending.total());
        let mut left = BTreeMap::new();
        while !self.pending.is_empty() {
            match listener.next().await? {
                Heard::Event { name, data } => match name.as_str() {
                    "shelf.book" => self.heard_of(&data, &bar)?,
                    "shelf.removed" => self.gone(text(&data, "isbn"), &bar)?,
                    "queue" => drop(left.insert(text(&data, "name").to_owned(), data["left_ms"].as_u64())),
                    _ => {}
                },
                Heard::LookAgain => self.look(client, &bar).await?,
            }
            bar.set(self.pending.done(), self.ahead(longest(&left)));
        }
        bar.end();
        Ok(())
    }

    fn ahead(&self, left_ms: Option<u64>) -> String {
        let covers = self.coverless.len();
        let left = left_ms.filter(|ms| *ms > 0).map_or(String::new(), |ms| format!(", {} left", span(ms)));
        let books = self.pending.left() - covers;
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        format!("{books} book{} and {covers} cover{} to come{left}", plural(books), plural(covers))
    }

    /// Asks how books stand, those that were scanned first before the others, until so many in a row are not there yet. A
    /// book that is not on the shelf any more was not found.
    async fn look(&mut self, client: &Client, bar: &Progress) -> anyhow::Result<()> {
        let mut in_vain = 0;
        for isbn in self.pending.keys() {
            match client.get(&["api", "shelf", "books", &isbn], &[]).await {
                Ok(book) => self.heard_of(&book, bar)?,
                Err(error) => match error.downcast_ref::<Refusal>() {
                    Some(refusal) if refusal.status == StatusCode::NOT_FOUND => self.gone(&isbn, bar)?,
                    // A node that is down now is no reason to give up: the listener waits for it.
                    _ => return Ok(()),
                },
            }
            in_vain = if self.pending.contains(&isbn) { in_vain + 1 } else { 0 };
            if in_vain == IN_VAIN_MAX {
                break;
            }
        }
        Ok(())
    }

    fn heard_of(&mut self, book: &Value, bar: &Progress) -> anyhow::Result<()> {
        let isbn = text(book, "isbn");
        if !self.pending.contains(isbn) || text(book, "state") != "found" {
            return Ok(());
        }
        if text(book, "cover_state") == "waiting" {
            self.coverless.insert(isbn.to_owned());
            return Ok(());
        }
        self.coverless.remove(isbn);
        self.pending.remove(isbn);
        self.found += 1;
        self.covers += usize::from(text(book, "cover_state") == "found");
        if self.target.json { bar.line(book) } else { bar.line(described(book)) }
    }

    fn gone(&mut self, isbn: &str, bar: &Progress) -> anyhow::Result<()> {
        if !self.pending.remove(isbn) {
            return Ok(());
        }
        self.coverless.remove(isbn);
        self.missing += 1;
        if self.target.json {
            return bar.line(json!({ "isbn": isbn, "state": "not found" }));
        }
        bar.line(format_args!("{isbn:<13}  {}", toned(Tone::Doubtful, "not found")))
    }

    fn summary(&self, no_wait: bool) -> anyhow::Result<()> {
        if !self.target.json {
            let refused =
                if self.refused > 0 { format!(", {} refused", self.refused) } else { String::new() };
            let words = if no_wait {
                format!("{} handed over{refused}", self.pending.total())
            } else {
                let (found, covers, missing) = (self.found, self.covers, self.missing);
                format!("{found} found, {covers} with a cover, {missing} not found{refused}")
            };
            output::line(toned(Tone::Quiet, words))?;
        }
        if self.missing + self.refused > 0 { Err(Shown.into()) } else { Ok(()) }
    }
}

/// The queues that call an API, and so decide how long the shelf takes. The others wait for these.
const CALLING: [&str; 3] =
    [presets::FETCH_NDL_SEARCH.name, presets::FETCH_GOOGLE_SEARCH.name, presets::FETCH_RAKUTEN_SEARCH.name];

/// What the slowest of them says now; nothing while one of them cannot tell, for instance because it is paused.
fn longest(left: &BTreeMap<String, Option<u64>>) -> Option<u64> {
    let calling = left.iter().filter(|(queue, _)| CALLING.contains(&queue.as_str()));
    calling.map(|(_, left)| *left).collect::<Option<Vec<u64>>>()?.into_iter().max()
}

fn described(book: &Value) -> String {
    let authors: Vec<&str> = items(book, "authors").iter().filter_map(Value::as_str).collect();
    let printed: Vec<&str> = [text(book, "publisher"), text(book, "published")]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    let cover = match text(book, "cover") {
        "" => toned(Tone::Quiet, "no cover"),
        url => toned(Tone::Quiet, url),
    };
    let title = toned(Tone::Good, text(book, "title"));
    format!("{:<13}  {title} / {} ({})  {cover}", text(book, "isbn"), authors.join(", "), printed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan of eight books was said to take 24 days: the longest time any queue had ever said was kept.
    #[test]
    fn qu_34_the_time_left_is_what_the_slowest_api_says_now() {
        let left = |queues: &[(&str, Option<u64>)]| {
            longest(&queues.iter().map(|(name, left)| ((*name).to_owned(), *left)).collect())
        };
        let (ndl, google, image) = ("fetchNdlSearch", "fetchGoogleSearch", "fetchBookImage");
        assert_eq!(left(&[(ndl, Some(400)), (google, Some(900)), (image, Some(90_000_000))]), Some(900));
        assert_eq!(left(&[(ndl, Some(400)), (google, None)]), None);
        assert_eq!(left(&[]), None);
    }

    #[test]
    fn bk_01_a_book_is_shown_with_all_that_is_known_and_no_more() {
        let book = json!({ "isbn": "9784000000079", "title": "潮", "authors": ["湊 さわこ", "葉山 汐"],
            "publisher": "汐見書房", "published": "2021-05", "cover": "http://127.0.0.1:1/a.jpg" });
        assert_eq!(
            described(&book),
            "9784000000079  潮 / 湊 さわこ, 葉山 汐 (汐見書房, 2021-05)  http://127.0.0.1:1/a.jpg"
        );
        let bare = json!({ "isbn": "9784000000079", "title": "潮", "authors": [], "published": "2021" });
        assert_eq!(described(&bare), "9784000000079  潮 /  (2021)  no cover");
    }
}
