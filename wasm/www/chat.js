import init, { Chat, Stop } from "./pkg/neuron_wasm.js";

const element = (id) => document.getElementById(id);
const settings = ["vendor", "url", "key", "model"].map(element);

await init();
let chat = null;
// Other settings start another conversation.
element("settings").addEventListener("input", () => (chat = null));

/** Adds a paragraph to the conversation, and returns it. */
function show(text, kind) {
  const paragraph = document.createElement("p");
  paragraph.textContent = text;
  paragraph.className = kind;
  element("messages").append(paragraph);
  return paragraph;
}

element("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const question = element("question").value;
  element("question").value = "";
  show(`you: ${question}`, "user");
  const answer = show("", "agent");
  const stop = new Stop();
  element("stop").onclick = () => stop.stop();
  element("send").disabled = true;
  element("stop").disabled = false;
  try {
    chat ??= new Chat(...settings.map((input) => input.value.trim()));
    await chat.send(question, stop, (text) => (answer.textContent += text));
  } catch (error) {
    show(error.message, "error");
  }
  element("send").disabled = false;
  element("stop").disabled = true;
});
