//! Patterns for shell commands, which are compared word by word. The match is undecidable if a command contains
//! anything except plain words.

use super::finding::Finding;
use super::glob::Glob;

/// A pattern for shell commands. `*` matches any characters within a word, and `**` at the end matches any number of
/// words.
#[derive(Debug, Clone)]
pub(super) struct CommandPattern {
    words: Vec<Word>,
}

#[derive(Debug, Clone)]
enum Word {
    One(Glob),
    /// Any number of words, including none. It occurs only at the end of a pattern.
    Rest,
}

impl CommandPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// Returns a description of the fault in the pattern.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let texts: Vec<&str> = pattern.split_whitespace().collect();
        let is_plain =
            |word: &str| word.chars().all(|character| character == '*' || is_plain(character));
        if texts.is_empty() {
            return Err("it has no word".into());
        }
        if let Some(word) = texts.iter().find(|word| !is_plain(word)) {
            return Err(format!(
                "`{word}` has a character that no plain word has, and matches nothing"
            ));
        }
        let last = texts.len() - 1;
        let word = |(index, word): (usize, &&str)| match *word {
            "**" if index == last => Ok(Word::Rest),
            word if word.contains("**") => {
                Err("`**` stands for all further words, and comes last".to_owned())
            }
            word => Ok(Word::One(Glob::new(word))),
        };
        Ok(Self { words: texts.iter().enumerate().map(word).collect::<Result<_, _>>()? })
    }

    /// Compares a command with the pattern. The result is `Unknown` if a shell may treat a character of the command
    /// specially.
    pub(super) fn matches(&self, command: &str) -> Finding {
        let is_known = |character: char| matches!(character, ' ' | '\t') || is_plain(character);
        if let Some(character) = command.chars().find(|character| !is_known(*character)) {
            return Finding::Unknown(format!(
                "the command has {character:?}, which a shell may treat specially"
            ));
        }
        let mut words = command.split_whitespace().peekable();
        // `PATH=/elsewhere git` sets a variable, and some shells expand `=git` to the path of the program.
        if words.peek().is_none_or(|first| first.contains('=')) {
            return Finding::unknown("the command does not begin with a program");
        }
        for word in &self.words {
            match (word, words.next()) {
                (Word::Rest, _) => return Finding::Yes,
                (Word::One(glob), Some(text)) if glob.matches(text) => {}
                (Word::One(_), _) => return Finding::No,
            }
        }
        Finding::of(words.next().is_none())
    }
}

/// Returns `true` if no shell gives the character a special meaning.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "_-./=:,@+".contains(character)
}
