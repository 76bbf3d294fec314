// What the pages do better with a script. Without it everything works.
"use strict";

// Times are shown in the reader's zone; the one of the server stays as a hint.
for (const t of document.querySelectorAll("time[datetime]")) {
  const at = new Date(t.dateTime);
  if (isNaN(at)) continue;
  t.title = t.textContent;
  t.textContent = at.toLocaleString([], { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}

// A slash goes to the search box, unless something is being typed.
document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
  const q = document.getElementById("q");
  if (q) {
    e.preventDefault();
    q.focus();
    q.select();
  }
});

// A form is sent once, however often its button is pressed. Coming back enables it again.
let sent = [];
document.addEventListener("submit", (e) => {
  if (e.target.method !== "post") return;
  setTimeout(() => {
    for (const b of e.target.querySelectorAll("button:enabled")) {
      b.disabled = true;
      sent.push(b);
    }
  });
});
window.addEventListener("pageshow", () => {
  for (const b of sent) b.disabled = false;
  sent = [];
});
