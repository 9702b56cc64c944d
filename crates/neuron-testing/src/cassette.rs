//! Records the requests to a model and its responses in a file, and replays them in tests.

mod exchange;
mod file;
mod secrets;
mod tape;

use std::fmt;
use std::future::ready;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::{StreamExt, stream};
use neuron_types::{
    CompletionRequest, CompletionResponse, Provider, ProviderError, ProviderInfo, RequestRef,
    StreamEvent, StreamHandle, StreamReceiver,
};
use tokio::time::Instant;

use self::exchange::{Outcome, Recorder};
use self::secrets::Secrets;
use self::tape::{Slot, Tape};
use crate::queue::lock;

/// The environment variable with the mode of all cassettes: `replay`, `record` or `missing`.
const VARIABLE: &str = "NEURON_CASSETTES";

/// A provider that records the exchanges of another provider in a file, and replays them.
///
/// A test with a cassette needs no key and no network, and gets the same responses in each run. Record once with a real
/// provider, and store the file with the test:
///
/// ```sh
/// NEURON_CASSETTES=record cargo test    # records all exchanges again
/// NEURON_CASSETTES=missing cargo test   # records only the requests without a recording
/// cargo test                            # replays
/// ```
///
/// Without the variable `NEURON_CASSETTES`, a request without a recording fails with [`ProviderError::InvalidRequest`].
/// The error shows the differences to the most similar recording. So CI never calls a vendor.
///
/// # Matching
///
/// By default a request must be [equal](CassetteMatching::Strict) to a recording, and each recording is used once. A
/// test that repeats a run creates a cassette for each run. Concurrent requests may arrive in any order. Use
/// [`normalize`](Self::normalize) for values that differ in each run, such as the current time. Streaming is not
/// compared. A recorded stream can answer a request that is not streamed, and a recorded response can answer a request
/// for a stream.
///
/// # Secrets
///
/// The file has no HTTP headers. Secrets in the formats of [`secret_formats`](neuron_types::secret_formats) become
/// `[KEY]`. [`secret`](Self::secret) replaces other values, even if a value is split over several pieces of a stream.
/// Numbers are not replaced. Check the file for further secrets before you commit it.
///
/// # Errors of the vendor
///
/// Temporary errors, such as a rate limit, and the error for a wrong key are not recorded unless
/// [`record_errors`](Self::record_errors) is set. So recording with a wrong key does not change the file.
///
/// # The file
///
/// The file is JSON, with one object for each exchange in the order of the requests. A request that continues the
/// conversation of an earlier request has only the new messages. Each piece of a stream has the time since the previous
/// piece, in milliseconds. The file is replaced after each recorded exchange. An exchange that the caller dropped
/// before its end is not recorded.
///
/// A file belongs to one cassette. Clones share the file. A second cassette that records the same file fails with an
/// error. Give each test its own file.
///
/// A replay needs a provider with the same [`Provider::info`] as the recorded provider, because the agent loop reads
/// the provider's abilities from this value. The key of the provider may be empty.
///
/// # Example
///
/// ```
/// use neuron_testing::{Cassette, CassetteMode, Reply, ScriptedProvider};
/// use neuron_types::{CompletionRequest, Message, Provider, ProviderError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), ProviderError> {
/// # let path = std::env::temp_dir().join(format!("neuron-cassette-{}.json", std::process::id()));
/// # let vendor = ScriptedProvider::new([Reply::text("It is 4.")]);
/// let request = CompletionRequest {
///     messages: vec![Message::user("What is 2 + 2?")],
///     ..Default::default()
/// };
/// // `vendor` stands for a provider with a key.
/// let recording = Cassette::new(&path, vendor).mode(CassetteMode::Record);
/// recording.complete_ref(request.view()).await?;
///
/// let cassette = Cassette::new(&path, ScriptedProvider::default()).mode(CassetteMode::Replay);
/// let response = cassette.complete_ref(request.view()).await?;
/// assert_eq!(response.message.text(), "It is 4.");
/// cassette.assert_complete();
/// # std::fs::remove_file(path).ok();
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Cassette<P> {
    provider: Arc<P>,
    mode: Option<CassetteMode>,
    matching: CassetteMatching,
    pace: CassettePace,
    normalize: Vec<Normalize>,
    recordings: Recordings,
}

/// The recordings of a cassette, and the rules for storing an exchange. Clones share the recordings.
#[derive(Clone)]
struct Recordings {
    tape: Arc<Mutex<Tape>>,
    secrets: Secrets,
    record_errors: bool,
}

type Normalize = Arc<dyn Fn(&mut CompletionRequest) + Send + Sync>;

/// The mode of a [`Cassette`], which determines if requests are recorded or replayed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassetteMode {
    /// Replays recordings. A request without a recording is an error, and the provider is never called.
    #[default]
    Replay,
    /// Calls the provider for each request, and replaces the file.
    Record,
    /// Replays recordings, and calls the provider for requests without a recording. Their exchanges are added to the
    /// file.
    Missing,
}

impl CassetteMode {
    /// Reads the mode from the environment variable `NEURON_CASSETTES`.
    fn of_environment() -> Result<Self, String> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        match value.to_str() {
            Some("" | "replay") => Ok(Self::Replay),
            Some("record") => Ok(Self::Record),
            Some("missing") => Ok(Self::Missing),
            _ => Err(format!("{VARIABLE} is {value:?}, and not `replay`, `record` or `missing`")),
        }
    }
}

/// The comparison of a request with the recordings of a [`Cassette`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassetteMatching {
    /// The whole requests must be equal, and each recording is used once.
    #[default]
    Strict,
    /// The messages must be equal. The model, the system prompt, the tools and the settings may differ. A recording is
    /// used again if all matching recordings were used.
    Lenient,
}

/// The speed of replayed exchanges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassettePace {
    /// Sends everything immediately.
    #[default]
    Immediate,
    /// Waits before a whole response and before each piece of a stream, as long as the provider took in the recording.
    /// The waits use tokio's clock, which a test can pause.
    Recorded,
}

impl<P: Provider> Cassette<P> {
    /// Creates a cassette with a file around a provider. Reads the file at the first request.
    pub fn new(path: impl Into<PathBuf>, provider: P) -> Self {
        Self {
            provider: Arc::new(provider),
            mode: None,
            matching: CassetteMatching::default(),
            pace: CassettePace::default(),
            normalize: Vec::new(),
            recordings: Recordings {
                tape: Arc::new(Mutex::new(Tape::new(path.into()))),
                secrets: Secrets::default(),
                record_errors: false,
            },
        }
    }

    /// Sets the mode, regardless of the environment variable `NEURON_CASSETTES`.
    pub fn mode(mut self, mode: CassetteMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the comparison of requests with recordings. Default: [`CassetteMatching::Strict`].
    pub fn matching(mut self, matching: CassetteMatching) -> Self {
        self.matching = matching;
        self
    }

    /// Sets the speed of replayed exchanges. Default: [`CassettePace::Immediate`].
    pub fn pace(mut self, pace: CassettePace) -> Self {
        self.pace = pace;
        self
    }

    /// Sets a secret value that the file must not contain. The file has `[secret:name]` instead. A replay replaces this
    /// placeholder in the responses by the secret value.
    ///
    /// The value may differ between recording and replay. The requests of the test must then contain the new value. An
    /// empty value is ignored.
    pub fn secret(mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        self.recordings.secrets.add(name.as_ref(), value.as_ref());
        self
    }

    /// Also records temporary errors, such as a rate limit, and the error for a wrong key.
    pub fn record_errors(mut self) -> Self {
        self.recordings.record_errors = true;
        self
    }

    /// Adds a function that replaces values which differ in each run, such as the current time. It changes the recorded
    /// request, and a copy of each new request for the comparison. The provider receives the unchanged request.
    pub fn normalize(
        mut self,
        normalize: impl Fn(&mut CompletionRequest) + Send + Sync + 'static,
    ) -> Self {
        self.normalize.push(Arc::new(normalize));
        self
    }

    /// Returns the number of recordings that no request has used. Reads the file if no request was made before. Returns
    /// 0 in the mode [`CassetteMode::Record`], and if the file cannot be read.
    #[must_use]
    pub fn unused(&self) -> usize {
        let mut tape = lock(&self.recordings.tape);
        match self.load(&mut tape) {
            Ok(CassetteMode::Record) | Err(_) => 0,
            Ok(_) => tape.unused().count(),
        }
    }

    /// Asserts that the file can be read, and that every recording was used. In the mode [`CassetteMode::Record`],
    /// recordings are not checked.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be read or recordings are left.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion")]
    pub fn assert_complete(&self) {
        let (path, unused) = {
            let mut tape = lock(&self.recordings.tape);
            match self.load(&mut tape) {
                Ok(CassetteMode::Record) => return,
                Ok(_) => {}
                Err(error) => panic!("{error}"),
            }
            (tape.path().display().to_string(), tape.unused().collect::<Vec<_>>())
        };
        assert!(
            unused.is_empty(),
            "{path}: the recordings {unused:?} (counted from 0) were not used"
        );
    }

    /// Reads the file if that was not done before, and returns the mode.
    fn load(&self, tape: &mut Tape) -> Result<CassetteMode, ProviderError> {
        let mode = match self.mode {
            Some(mode) => Ok(mode),
            None => CassetteMode::of_environment(),
        };
        let loaded = mode.and_then(|mode| tape.load(mode).map(|()| mode));
        loaded.map_err(ProviderError::InvalidRequest)
    }

    /// Returns the recorded response for a request. If there is none, returns the index at which to record a new
    /// exchange, or an error in the mode [`CassetteMode::Replay`].
    fn find(&self, request: RequestRef<'_>) -> Result<Found, ProviderError> {
        let request = self.recorded_form(request)?;
        let mut tape = lock(&self.recordings.tape);
        let mode = self.load(&mut tape)?;
        if mode != CassetteMode::Record
            && let Some(outcome) = tape.take(&request, self.matching)
        {
            return Ok(Found::Recording(Box::new(outcome)));
        }
        match mode {
            CassetteMode::Replay => {
                Err(ProviderError::InvalidRequest(tape.no_recording(&request, self.matching)))
            }
            _ => Ok(Found::Place(tape.reserve(request))),
        }
    }

    /// Returns the JSON form of a request for the file, without secrets.
    fn recorded_form(&self, request: RequestRef<'_>) -> Result<exchange::Request, ProviderError> {
        let mut request = request.to_request();
        for normalize in &self.normalize {
            normalize(&mut request);
        }
        let request = exchange::Request::new(&request);
        let mut request = request.map_err(|error| ProviderError::Other(Box::new(error)))?;
        request.remove_secrets(&self.recordings.secrets);
        Ok(request)
    }
}

/// A recorded response to replay, or the index at which to record a new exchange.
enum Found {
    Recording(Box<Outcome>),
    Place(Slot),
}

impl Recordings {
    /// Removes secrets from the response or the error of an exchange, and stores it. Temporary errors and the error for
    /// a wrong key are stored only if [`record_errors`](Cassette::record_errors) was called.
    fn store(&self, slot: Slot, mut outcome: Outcome) -> Result<(), ProviderError> {
        let may_pass = |error: &ProviderError| {
            error.is_retryable() || matches!(error, ProviderError::Authentication(_))
        };
        if !self.record_errors && outcome.error().as_ref().is_some_and(may_pass) {
            return Ok(());
        }
        let removed = outcome.remove_secrets(&self.secrets);
        let stored = removed.and_then(|()| lock(&self.tape).store(slot, outcome));
        stored.map_err(|error| ProviderError::Other(error.into()))
    }
}

impl<P: Provider + 'static> Provider for Cassette<P> {
    async fn complete_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<CompletionResponse, ProviderError> {
        match self.find(request)? {
            Found::Recording(outcome) => {
                outcome.with_secrets(&self.recordings.secrets).response(self.pace).await
            }
            Found::Place(slot) => {
                let start = Instant::now();
                let response = self.provider.complete_ref(request).await;
                self.recordings.store(slot, Outcome::whole(&response, start.elapsed()))?;
                response
            }
        }
    }

    async fn complete_stream_ref(
        &self,
        request: RequestRef<'_>,
    ) -> Result<StreamHandle, ProviderError> {
        let slot = match self.find(request)? {
            Found::Recording(outcome) => {
                return outcome.with_secrets(&self.recordings.secrets).stream(self.pace).await;
            }
            Found::Place(slot) => slot,
        };
        let mut recorder = Recorder::default();
        let events = match self.provider.complete_stream_ref(request).await {
            Ok(stream) => stream.receiver,
            Err(error) => {
                self.recordings.store(slot, recorder.failed(&error))?;
                return Err(error);
            }
        };
        let recordings = self.recordings.clone();
        let mut place = Some((slot, recorder));
        let recorded = events.map(Some).chain(stream::iter([None])).filter_map(move |event| {
            let is_last = match (&mut place, &event) {
                (Some((_, recorder)), Some(event)) => recorder.take(event),
                // A stream may end after the message.
                (Some((_, recorder)), None) => recorder.has_message(),
                (None, _) => false,
            };
            let stored = match place.take_if(|_| is_last) {
                Some((slot, recorder)) => recordings.store(slot, recorder.finish()),
                None => Ok(()),
            };
            ready(match stored {
                Ok(()) => event,
                Err(error) => Some(StreamEvent::Error(error.into())),
            })
        });
        Ok(StreamHandle::from(StreamReceiver::new(recorded)))
    }

    fn info(&self) -> ProviderInfo<'_> {
        self.provider.info()
    }
}

/// Clones share the recordings.
impl<P> Clone for Cassette<P> {
    fn clone(&self) -> Self {
        Self {
            provider: Arc::clone(&self.provider),
            mode: self.mode,
            matching: self.matching,
            pace: self.pace,
            normalize: self.normalize.clone(),
            recordings: self.recordings.clone(),
        }
    }
}

impl<P> fmt::Debug for Cassette<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassette")
            .field("path", &lock(&self.recordings.tape).path())
            .field("mode", &self.mode)
            .field("matching", &self.matching)
            .finish_non_exhaustive()
    }
}
