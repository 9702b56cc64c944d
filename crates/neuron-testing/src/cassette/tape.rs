//! The recordings in the file of a cassette. Each request is compared with them, and new recordings are added.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::Value;

use super::exchange::{Exchange, Outcome, Request};
use super::{CassetteMatching, CassetteMode, VARIABLE, file};
use crate::differences::differences;
use crate::queue::lock;

/// Maximum number of differences to a recording that an error text lists.
const SHOWN: usize = 12;

/// Absolute paths of the files that cassettes of this process are recording. Two cassettes must not record the same
/// file.
static RECORDED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The recordings in a cassette file. Reads the file, finds recordings for requests, and writes new recordings.
#[derive(Debug)]
pub(super) struct Tape {
    path: PathBuf,
    state: State,
    /// Path of the file in [`RECORDED`], the set of files that cassettes of this process are recording. `None` during
    /// replay.
    recorded: Option<PathBuf>,
}

impl Drop for Tape {
    fn drop(&mut self) {
        if let Some(path) = &self.recorded {
            lock(&RECORDED).remove(path);
        }
    }
}

#[derive(Debug)]
enum State {
    Unread,
    Read(Vec<Recording>),
    /// The file cannot be read, for this reason.
    Unreadable(String),
}

#[derive(Debug)]
struct Recording {
    request: Request,
    /// The response or the error. `None` until the exchange has ended.
    outcome: Option<Outcome>,
    /// Number of requests that have used the recording.
    uses: usize,
}

/// The index of a recording whose exchange is in progress. The response or the error is stored there later.
#[derive(Debug)]
pub(super) struct Slot(usize);

impl Tape {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, state: State::Unread, recorded: None }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file, unless it was read before. In the mode [`CassetteMode::Record`], the old content of the file is
    /// ignored.
    ///
    /// # Errors
    ///
    /// Returns the reason if the file is not a cassette, or if it is missing in the mode [`CassetteMode::Replay`]. Also
    /// returns the reason if another cassette records the file.
    pub(super) fn load(&mut self, mode: CassetteMode) -> Result<(), String> {
        if let State::Unread = self.state {
            if mode != CassetteMode::Replay {
                self.claim()?;
            }
            let read = match mode {
                CassetteMode::Record => Ok(Some(Vec::new())),
                CassetteMode::Replay | CassetteMode::Missing => file::read(&self.path),
            };
            self.state = match read {
                Ok(None) if mode == CassetteMode::Replay => State::Unreadable(format!(
                    "there is no cassette {}: record it with {VARIABLE}=record",
                    self.path.display()
                )),
                Ok(exchanges) => State::Read(
                    exchanges
                        .unwrap_or_default()
                        .into_iter()
                        .map(|Exchange { request, outcome }| Recording {
                            request,
                            outcome: Some(outcome),
                            uses: 0,
                        })
                        .collect(),
                ),
                Err(reason) => State::Unreadable(reason),
            };
        }
        match &self.state {
            State::Unreadable(reason) => Err(reason.clone()),
            _ => Ok(()),
        }
    }

    /// Adds the path of the file to [`RECORDED`], so that no other cassette records the same file.
    ///
    /// # Errors
    ///
    /// Returns the reason if another cassette records the file. Two such cassettes would overwrite each other's
    /// exchanges.
    fn claim(&mut self) -> Result<(), String> {
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        if !lock(&RECORDED).insert(path.clone()) {
            return Err(format!(
                "another cassette of this process records {}: use a clone of it, or another file",
                self.path.display()
            ));
        }
        self.recorded = Some(path);
        Ok(())
    }

    fn recordings(&self) -> &[Recording] {
        match &self.state {
            State::Read(recordings) => recordings,
            _ => &[],
        }
    }

    fn recordings_mut(&mut self) -> &mut [Recording] {
        match &mut self.state {
            State::Read(recordings) => recordings,
            _ => &mut [],
        }
    }

    /// Returns the recorded response or error for a request, and counts the use. If several recordings match, the
    /// recording with the fewest uses is taken, and the earliest of these. Returns `None` if no recording matches.
    pub(super) fn take(
        &mut self,
        request: &Request,
        matching: CassetteMatching,
    ) -> Option<Outcome> {
        let matches = |recording: &&mut Recording| match matching {
            CassetteMatching::Strict => recording.uses == 0 && recording.request == *request,
            CassetteMatching::Lenient => recording.request.messages() == request.messages(),
        };
        let recordings = self.recordings_mut().iter_mut();
        let usable = recordings.filter(|recording| recording.outcome.is_some()).filter(matches);
        let found = usable.min_by_key(|recording| recording.uses)?;
        found.uses += 1;
        found.outcome.clone()
    }

    /// Returns the positions of the recordings that no request has used.
    pub(super) fn unused(&self) -> impl Iterator<Item = usize> {
        let recordings = self.recordings().iter().enumerate();
        recordings.filter(|(_, recording)| recording.uses == 0).map(|(index, _)| index)
    }

    /// Adds a recording of `request` that has no response yet. Returns the index for [`store`](Self::store).
    pub(super) fn reserve(&mut self, request: Request) -> Slot {
        if let State::Read(recordings) = &mut self.state {
            recordings.push(Recording { request, outcome: None, uses: 1 });
        }
        Slot(self.recordings().len().saturating_sub(1))
    }

    /// Stores the response or the error of an exchange, and writes the whole cassette file again. Returns the reason as
    /// an error if the file cannot be written.
    pub(super) fn store(&mut self, Slot(index): Slot, outcome: Outcome) -> Result<(), String> {
        if let Some(recording) = self.recordings_mut().get_mut(index) {
            recording.outcome = Some(outcome);
        }
        let ended = self
            .recordings()
            .iter()
            .filter_map(|recording| Some((&recording.request, recording.outcome.as_ref()?)));
        file::write(&self.path, &ended.collect::<Vec<_>>())
    }

    /// Returns the error text for a request without a recording, with the differences to the most similar recording.
    pub(super) fn no_recording(&self, request: &Request, matching: CassetteMatching) -> String {
        let path = self.path.display();
        let advice = format!("record it with {VARIABLE}=missing, or all with {VARIABLE}=record");
        let recordings = self.recordings().iter().enumerate();
        let equal = recordings.clone().find(|(_, recording)| recording.request == *request);
        if let Some((index, _)) = equal {
            return format!(
                "{path}: the request is equal to recording {index} (counted from 0), which was used before; create a \
                 `Cassette` for each run, or {advice}"
            );
        }
        let compared = |request: &Request| match matching {
            CassetteMatching::Strict => Value::Object(request.0.clone()),
            CassetteMatching::Lenient => Value::Array(request.messages().to_vec()),
        };
        let sent = compared(request);
        let nearest = recordings
            .map(|(index, recording)| (index, differences(&compared(&recording.request), &sent)))
            .min_by_key(|(_, differences)| differences.len());
        let Some((index, differences)) = nearest else {
            return format!("{path}: the cassette has no recordings; {advice}");
        };
        let mut lines: Vec<String> =
            differences.iter().take(SHOWN).map(|line| format!("\n  {line}")).collect();
        if differences.len() > SHOWN {
            lines.push(format!("\n  and {} more", differences.len() - SHOWN));
        }
        format!(
            "{path}: the request has no recording; {advice}. The differences to recording {index} (counted from 0), \
             the most similar:{}",
            lines.concat()
        )
    }
}
