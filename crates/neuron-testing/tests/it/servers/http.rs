//! A small HTTP/1.1 client. It returns the chunks of a response as they were sent, and reports if the response was
//! complete.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response, with its chunks as they were received.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) chunks: Vec<Vec<u8>>,
    /// `true` if the body ended normally, and `false` if the connection was closed before the end.
    pub(crate) complete: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(key, _)| key == name);
        header.map(|(_, value)| value.as_str())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes()).unwrap()
    }

    /// Parses the body as lines of JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Parses the body as server-sent events. Returns the name and the data of every event.
    pub(crate) fn events(&self) -> Vec<(Option<String>, String)> {
        let text = self.text();
        let events = text.split_terminator("\n\n").map(|event| {
            let (name, data) = match event.split_once('\n') {
                Some((name, data)) => (Some(name.strip_prefix("event: ").unwrap()), data),
                None => (None, event),
            };
            (name.map(str::to_owned), data.strip_prefix("data: ").unwrap().to_owned())
        });
        events.collect()
    }

    /// Parses the body as server-sent events with JSON. Asserts that the name of every event is the `type` in its JSON.
    pub(crate) fn typed_events(&self) -> Vec<Value> {
        let events = self.events().into_iter().map(|(name, data)| {
            let data: Value = serde_json::from_str(&data).unwrap();
            assert_eq!(name.as_deref(), data["type"].as_str());
            data
        });
        events.collect()
    }
}

/// A connection to a server.
pub(crate) struct Client(TcpStream);

impl Client {
    pub(crate) async fn connect(url: &str) -> io::Result<Self> {
        let address = url.strip_prefix("http://").unwrap();
        Ok(Self(TcpStream::connect(address).await?))
    }

    pub(crate) async fn send(
        &mut self,
        method_and_path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let mut head = format!("{method_and_path} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
        self.0.write_all(head.as_bytes()).await?;
        self.0.write_all(body).await
    }

    /// Reads one response. Returns an error if the connection is closed before the head of the response is complete.
    pub(crate) async fn receive(&mut self) -> io::Result<Answer> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line().await?;
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
                None => break,
            }
        }
        let mut answer = Answer { status, headers, chunks: Vec::new(), complete: false };
        answer.complete = self.body(&mut answer.chunks).await.is_ok();
        Ok(answer)
    }

    /// Reads a chunked body, and adds its chunks to `chunks`.
    async fn body(&mut self, chunks: &mut Vec<Vec<u8>>) -> io::Result<()> {
        loop {
            let size = usize::from_str_radix(&self.line().await?, 16).unwrap();
            let mut chunk = vec![0; size];
            self.0.read_exact(&mut chunk).await?;
            assert_eq!(self.line().await?, "");
            if size == 0 {
                return Ok(());
            }
            chunks.push(chunk);
        }
    }

    pub(crate) async fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.push(self.0.read_u8().await?);
        }
        line.truncate(line.len() - 2);
        Ok(String::from_utf8(line).unwrap())
    }
}

/// Sends one request over a new connection, and returns the response.
pub(crate) async fn exchange(
    url: &str,
    method_and_path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let mut client = Client::connect(url).await.unwrap();
    client.send(method_and_path, headers, body.to_string().as_bytes()).await.unwrap();
    client.receive().await.unwrap()
}
