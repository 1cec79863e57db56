//! `[recordings]`: where recordings of calls are kept, and how large one may be.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use syncline_node::config::{Settings, base_url, folder, setting};
use syncline_node::secret::{REDACTED, Secret};

/// Largest recording unless said otherwise: a day of telephone sound.
const MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// The most that storage takes in one piece.
const MAX_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

/// Longest name of a bucket, and longest prefix.
const BUCKET_MAX_BYTES: usize = 63;
const PREFIX_MAX_BYTES: usize = 256;

/// Recordings as configured.
#[derive(Debug, Clone, Default)]
pub struct RecordingSettings {
    /// The folder; uploads pass through it even where a bucket keeps them.
    pub dir: PathBuf,
    /// The most bytes of one recording.
    pub max_bytes: u64,
    /// The bucket that keeps them instead of the folder.
    pub s3: Option<S3>,
}

/// A bucket in storage that speaks S3.
#[derive(Debug, Clone)]
pub struct S3 {
    /// Where the storage is.
    pub endpoint: Url,
    /// The bucket's name.
    pub bucket: String,
    /// Its region.
    pub region: String,
    /// What all keys begin with.
    pub prefix: String,
    /// Whether the bucket's name is in the path and not in the host.
    pub path_style: bool,
    /// Who we are.
    pub access_key_id: Secret,
    /// The proof of it.
    pub secret_access_key: Secret,
}

pub(crate) fn read(settings: &mut Settings<'_>) -> RecordingSettings {
    let section = settings.section("recordings");
    let dir = settings.value(&section, ("dir", "recordings.dir"), "RECORDINGS_DIR", folder);
    let max_bytes = section.integer("max_bytes", 1..=MAX_BYTES_MAX).unwrap_or(MAX_BYTES);
    let inner = section.section("s3");
    let mut ask = |key: &'static str, path, variable| {
        settings.value(&inner, (key, path), variable, |text| match key {
            "endpoint" => base_url(text).map(|_| text.to_owned()),
            "bucket" => bucket(text),
            "prefix" => prefix(text),
            _ => visible(text),
        })
    };
    let endpoint = ask("endpoint", "recordings.s3.endpoint", "RECORDINGS_S3_ENDPOINT");
    let name = ask("bucket", "recordings.s3.bucket", "RECORDINGS_S3_BUCKET");
    let region = ask("region", "recordings.s3.region", "RECORDINGS_S3_REGION");
    let prefix = ask("prefix", "recordings.s3.prefix", "RECORDINGS_S3_PREFIX");
    let id = ask("access_key_id", "recordings.s3.access_key_id", "AWS_ACCESS_KEY_ID");
    let key = ask("secret_access_key", "recordings.s3.secret_access_key", "AWS_SECRET_ACCESS_KEY");
    let path_style = inner.boolean("path_style");
    inner.finish();
    section.finish();

    let region = region.unwrap_or_else(|| "us-east-1".to_owned());
    let s3 = name.and_then(|bucket| {
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = Url::parse(&endpoint).ok()?;
        let (Some(id), Some(key)) = (id, key) else {
            let what = "a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or access_key_id and \
                        secret_access_key beside it";
            settings.wrong("recordings.s3.bucket", what);
            return None;
        };
        let amazon = endpoint.host_str().is_some_and(|host| host.ends_with(".amazonaws.com"));
        Some(S3 {
            endpoint,
            bucket,
            region,
            prefix: prefix.unwrap_or_default(),
            path_style: path_style.unwrap_or(!amazon),
            access_key_id: Secret::new(id),
            secret_access_key: Secret::new(key),
        })
    });
    let dir = dir.unwrap_or_else(|| settings.data().join("recordings"));
    RecordingSettings { dir, max_bytes, s3 }
}

pub(crate) fn print(f: &mut fmt::Formatter<'_>, recordings: &RecordingSettings) -> fmt::Result {
    writeln!(f, "\n[recordings]")?;
    setting(f, "dir", recordings.dir.display().to_string())?;
    setting(f, "max_bytes", recordings.max_bytes as i64)?;
    let Some(s3) = &recordings.s3 else { return Ok(()) };
    setting(f, "s3.endpoint", s3.endpoint.as_str())?;
    setting(f, "s3.bucket", s3.bucket.as_str())?;
    setting(f, "s3.region", s3.region.as_str())?;
    setting(f, "s3.prefix", s3.prefix.as_str())?;
    setting(f, "s3.path_style", s3.path_style)?;
    setting(f, "s3.access_key_id", REDACTED)?;
    setting(f, "s3.secret_access_key", REDACTED)
}

fn bucket(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if !(3..=BUCKET_MAX_BYTES).contains(&text.len()) || !text.bytes().all(fits) {
        return Err(format!(
            "expected the name of a bucket, 3 to {BUCKET_MAX_BYTES} of a-z, 0-9, - and ., found {text:?}"
        ));
    }
    Ok(text.to_owned())
}

fn prefix(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    let stays = !text.starts_with('/') && text.split('/').all(|step| !matches!(step, "." | ".."));
    if text.len() > PREFIX_MAX_BYTES || !text.bytes().all(fits) || !stays {
        return Err(format!("expected what keys begin with, such as calls/, found {text:?}"));
    }
    Ok(text.to_owned())
}

/// The value is not repeated: it may be a credential in the wrong place.
fn visible(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.len() <= 1024 && text.bytes().all(|byte| byte.is_ascii_graphic());
    fits.then(|| text.to_owned()).ok_or_else(|| "expected visible ASCII characters without spaces".to_owned())
}
