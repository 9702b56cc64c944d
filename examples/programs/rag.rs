//! Answers questions from documents, which a tool finds by the similarity of their embeddings in a SQLite database.

use std::error::Error;
use std::sync::{Mutex, PoisonError};

use neuron::anthropic::Anthropic;
use neuron::openai::OpenAi;
use neuron::prelude::*;
use neuron::types::{EmbeddingError, EmbeddingProvider, EmbeddingRequest};
use rusqlite::{Connection, params};

const DOCUMENTS: [&str; 4] = [
    "Refunds: customers can return an article within 30 days.",
    "Shipping: parcels to Norway need 5 days.",
    "Payment: we accept cards and invoices.",
    "Support: the office is open on weekdays from 9 to 17.",
];

/// Documents with their embeddings.
struct Index {
    embedder: OpenAi,
    db: Mutex<Connection>,
}

impl Index {
    fn open(path: &str, embedder: OpenAi) -> Result<Self, Box<dyn Error>> {
        let db = Connection::open(path)?;
        db.execute("CREATE TABLE IF NOT EXISTS documents (text PRIMARY KEY, vector)", [])?;
        Ok(Self { embedder, db: Mutex::new(db) })
    }

    async fn embed(&self, input: Vec<String>) -> Result<Vec<Vec<f32>>, EmbeddingError> {
        // Without a model, the provider uses its default model.
        let request = EmbeddingRequest { input, ..Default::default() };
        Ok(self.embedder.embed(request).await?.embeddings)
    }

    /// Embeds all documents with one request and stores them.
    async fn add(&self, documents: &[&str]) -> Result<(), Box<dyn Error>> {
        let vectors = self.embed(documents.iter().map(ToString::to_string).collect()).await?;
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        for (text, vector) in documents.iter().zip(&vectors) {
            let vector = serde_json::to_string(vector)?;
            db.execute("INSERT OR REPLACE INTO documents VALUES (?1, ?2)", params![text, vector])?;
        }
        Ok(())
    }

    /// Returns the most similar documents with their similarity, from 0 to 1.
    async fn search(
        &self,
        query: &str,
        count: usize,
    ) -> Result<Vec<(f32, String)>, Box<dyn Error>> {
        let query = self.embed(vec![query.to_owned()]).await?.pop().unwrap_or_default();
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        let mut select = db.prepare("SELECT text, vector FROM documents ORDER BY text")?;
        let mut rows = select.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let vector: Vec<f32> = serde_json::from_str(&row.get::<_, String>(1)?)?;
            found.push((cosine(&query, &vector), row.get(0)?));
        }
        found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        found.truncate(count);
        Ok(found)
    }
}

/// Returns the cosine similarity of two vectors.
fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

/// Searches the documents of the shop.
#[neuron_tool(effect = Pure)]
async fn search_documents(
    /// The question or some keywords
    query: String,
    ctx: &ToolContext,
) -> Result<Vec<String>, ToolError> {
    let missing = || ToolError::ExecutionFailed("there is no index in the context".into());
    let index = ctx.extensions.get::<Index>().ok_or_else(missing)?;
    let failed = |error: Box<dyn Error>| ToolError::ExecutionFailed(error.to_string().into());
    let found = index.search(&query, 2).await.map_err(failed)?;
    Ok(found.into_iter().map(|(_, text)| text).collect())
}

#[tokio::main]
pub async fn main() -> Result<(), MainError> {
    let index = Index::open("documents.db", OpenAi::from_env()?)?;
    index.add(&DOCUMENTS).await?;
    for (similarity, text) in index.search("Can I pay a parcel by invoice?", 2).await? {
        println!("{similarity:.2} {text}");
    }

    let mut tools = ToolRegistry::new();
    tools.register(SearchDocumentsTool);
    let agent = Agent::builder(Anthropic::from_env()?)
        .tools(tools)
        .system_prompt("Answer only from the documents.")
        .build();
    let mut ctx = ToolContext::default();
    ctx.extensions.insert(index);
    let mut conversation = Conversation::new();
    let question = "How long does a parcel to Norway take?";
    let result = agent.run(&mut conversation, question).context(&ctx).await?;
    println!("{}", result.response);
    Ok(())
}
