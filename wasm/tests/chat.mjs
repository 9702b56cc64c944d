// Sends two messages with the agent of the web page, and stops the second: node chat.mjs MODULE URL
import { createRequire } from "node:module";

const [module, url] = process.argv.slice(2);
const { Chat, Stop } = createRequire(import.meta.url)(module);
const chat = new Chat("anthropic", url, "test-key", "");
const pieces = [];
const answer = await chat.send("2 + 3?", new Stop(), (text) => pieces.push(text));
console.log(answer, pieces.join("") === answer, pieces.length > 1);

const stop = new Stop();
try {
  await chat.send("wait", stop, () => stop.stop());
} catch (error) {
  console.log(error.message);
}
console.log(await chat.send("again", new Stop(), () => {}));
process.exit();
