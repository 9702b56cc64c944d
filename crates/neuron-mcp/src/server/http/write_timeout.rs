//! Write timeout for connections whose clients do not read.

use std::pin::Pin;
use std::time::Duration;

use tokio::io::AsyncWrite;
use tokio_io_timeout::TimeoutWriter;

/// Wraps a stream so that a write fails if no byte can be written for the time `limit`.
pub(super) fn with_write_timeout<S: AsyncWrite>(
    stream: S,
    limit: Duration,
) -> Pin<Box<TimeoutWriter<S>>> {
    let mut writer = TimeoutWriter::new(stream);
    writer.set_timeout(Some(limit));
    Box::pin(writer)
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn slow_reader_receives_all_data() {
        let (mut reader, stream) = tokio::io::duplex(10);
        let mut writer = with_write_timeout(stream, LIMIT);
        let read = async {
            let mut read = Vec::new();
            while read.len() < 50 {
                tokio::time::sleep(LIMIT.mul_f32(0.9)).await;
                let mut some = [0; 10];
                let length = reader.read(&mut some).await.unwrap();
                read.extend_from_slice(&some[..length]);
            }
            read
        };
        let (written, read) = futures_util::future::join(writer.write_all(&[7; 50]), read).await;
        written.unwrap();
        assert_eq!(read, [7; 50]);
        // The timeout does not apply while no write is pending.
        tokio::time::sleep(LIMIT * 2).await;
        writer.write_all(&[8]).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn write_without_a_reader_times_out() {
        let (reader, stream) = tokio::io::duplex(10);
        let mut writer = with_write_timeout(stream, LIMIT);
        let begun = tokio::time::Instant::now();
        let error = writer.write_all(&[7; 50]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= LIMIT);
        drop(reader);
    }
}
