//! A recording on its way in: pieces in, a receipt out.
//!
//! Pieces are collected to batches, and while one batch is hashed and written the next is received; there are never more than
//! two. An upload that is dropped, because its sender went away or sent nonsense, leaves nothing behind.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use metrics::Gauge;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::bucket::Bucket;
use super::disk::{Disk, Staged};
use super::{Error, Meters, Name, Receipt, blocking};

/// Bytes that are written at a time.
const BATCH_BYTES: usize = 1024 * 1024;

/// A recording being received.
pub(crate) struct Upload {
    disk: Disk,
    bucket: Option<Bucket>,
    meters: Meters,
    /// The batch being collected.
    pieces: Vec<Bytes>,
    collected: usize,
    /// The batch being written; `None` once that has failed, because a task ends once.
    writing: Option<JoinHandle<Result<Staged, Error>>>,
    _receiving: Receiving,
    _place: OwnedSemaphorePermit,
}

/// What became of an upload.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) receipt: Receipt,
    /// It was there before.
    pub(crate) repeated: bool,
}

impl Upload {
    pub(super) fn begin(
        disk: Disk,
        bucket: Option<Bucket>,
        meters: Meters,
        place: OwnedSemaphorePermit,
    ) -> Upload {
        let receiving = Receiving::new(&meters.receiving);
        let stage = disk.clone();
        let writing = Some(tokio::task::spawn_blocking(move || stage.stage()));
        let (pieces, collected) = (Vec::new(), 0);
        Upload { disk, bucket, meters, pieces, collected, writing, _receiving: receiving, _place: place }
    }

    /// Takes the next piece. Waits while the disk is slower than the sender.
    pub(crate) async fn write(&mut self, piece: Bytes) -> Result<(), Error> {
        self.meters.bytes.increment(piece.len() as u64);
        self.collected += piece.len();
        self.pieces.push(piece);
        if self.collected >= BATCH_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Keeps the recording, and returns when it is durably kept.
    pub(crate) async fn finish(mut self, call: &Name, recording: &Name, meta: Bytes) -> Result<Kept, Error> {
        self.flush().await?;
        let staged = self.written().await?;
        let staged = blocking(move || {
            staged.write_meta(&meta)?;
            Ok(staged)
        })
        .await?;
        let (length, sha256) = staged.digest();
        let receipt = Receipt { recording_id: recording.as_str().to_owned(), length, sha256 };
        let repeated = match &self.bucket {
            Some(bucket) => bucket.keep(Arc::new(staged), call, &receipt).await?,
            None => {
                let (disk, call, receipt) = (self.disk.clone(), call.clone(), receipt.clone());
                blocking(move || disk.keep(staged, &call, &receipt)).await?
            }
        };
        if repeated { &self.meters.repeated } else { &self.meters.stored }.increment(1);
        Ok(Kept { receipt, repeated })
    }

    /// Gives the recording up, and returns when nothing of it is left.
    pub(crate) async fn abandon(mut self) {
        drop(self.written().await);
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let mut staged = self.written().await?;
        let pieces = mem::take(&mut self.pieces);
        self.collected = 0;
        self.writing = Some(tokio::task::spawn_blocking(move || {
            staged.write(&pieces)?;
            Ok(staged)
        }));
        Ok(())
    }

    /// The upload, once the batch before is written.
    async fn written(&mut self) -> Result<Staged, Error> {
        let Some(writing) = self.writing.take() else {
            return Err(std::io::Error::other("the upload has failed before").into());
        };
        match writing.await {
            Ok(written) => written,
            Err(error) => Err(std::io::Error::other(error).into()),
        }
    }
}

/// Counts an upload as under way for as long as it is.
struct Receiving(Gauge);

impl Receiving {
    fn new(gauge: &Gauge) -> Receiving {
        gauge.increment(1.0);
        Receiving(gauge.clone())
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
