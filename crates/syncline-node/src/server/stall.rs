//! A stream whose peer must read, and that is closed so that the peer can read the last answer.
//!
//! A peer that asks for much and reads nothing would hold its connection and our buffers for ever: HTTP has no time-out
//! for that. Here a write that makes no progress for `limit` fails, which ends the connection. Reads pass through.
//!
//! A system that closes a connection on which something lies unread resets it, and with that throws away what the peer has
//! not read yet: the 431 of a head that was too long, the 401 of an upload. So what still comes is read and thrown away
//! for a moment (RFC 9112, section 9.6).

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long, and how much, is thrown away while a connection closes.
const LINGER_MAX: Duration = Duration::from_secs(2);
const LINGER_MAX_BYTES: usize = 4 * 1024 * 1024;

pub(super) struct Stall<S> {
    stream: S,
    limit: Duration,
    closing: Option<Closing>,
    /// Runs while a write is waiting. Boxed, so that it costs nothing until then.
    waiting: Option<Pin<Box<Sleep>>>,
}

/// Our side is closed; what the peer still sends is thrown away.
struct Closing {
    discarded: usize,
    until: Pin<Box<Sleep>>,
}

impl<S> Stall<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Stall<S> {
        Stall { stream, limit, closing: None, waiting: None }
    }

    /// Lets progress through and turns a wait that has become too long into an error.
    fn watch<T>(&mut self, progress: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if progress.is_ready() {
            self.waiting = None;
            return progress;
        }
        let limit = self.limit;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match waiting.as_mut().poll(context) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer reads nothing")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Stall<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stall<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(progress, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let progress = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(progress, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let progress = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(progress, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.closing.is_none() {
            let progress = Pin::new(&mut self.stream).poll_shutdown(cx);
            match self.watch(progress, cx) {
                Poll::Ready(Ok(())) => {}
                unfinished => return unfinished,
            }
            self.closing = Some(Closing { discarded: 0, until: Box::pin(tokio::time::sleep(LINGER_MAX)) });
        }
        self.linger(cx)
    }
}

impl<S: AsyncRead + Unpin> Stall<S> {
    /// Reads until there is nothing more, for a moment. A peer that has sent nothing needs no waiting for.
    fn linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(closing) = &mut self.closing else { return Poll::Ready(Ok(())) };
        let mut space = [0; 16 * 1024];
        while closing.discarded < LINGER_MAX_BYTES {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    closing.discarded += buffer.filled().len();
                }
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending if closing.discarded == 0 => return Poll::Ready(Ok(())),
                Poll::Pending => return closing.until.as_mut().poll(cx).map(Ok),
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_nothing_is_given_up_and_a_slow_one_is_not() {
        let (near, _far) = tokio::io::duplex(16);
        let mut near = Stall::new(near, Duration::from_secs(30));
        near.write_all(&[0; 16]).await.unwrap();
        let stalled = near.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);

        let (near, mut far) = tokio::io::duplex(1);
        let mut near = Stall::new(near, Duration::from_secs(30));
        let reading = tokio::spawn(async move {
            let mut total = 0;
            let mut byte = [0; 1];
            while far.read(&mut byte).await.unwrap() == 1 {
                total += 1;
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            total
        });
        near.write_all(&[0; 16]).await.unwrap();
        drop(near);
        assert_eq!(reading.await.unwrap(), 16);
    }
}
