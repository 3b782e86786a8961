// Reads the record, fills the places for charts that the sections of the page leave, and makes the buttons of the page work.

const record = JSON.parse(document.getElementById("record").textContent);

const places = [...document.querySelectorAll(".charts")];
const SHOW = {
  runs: (place) => showRuns(place, place.dataset.runs.split(" ").map((number) => record.runs[number])),
  sweep: (place) => showSweep(place, place.dataset.runs.split(" ").map((number) => record.runs[number])),
  lives: (place) => showLives(place, place.dataset.runs.split(" ").map((number) => record.drives[number])),
  ablations: (place) => showAblation(place, record.ablations[place.dataset.number]),
  profile: (place) => showProfile(place, record.profiles[place.dataset.number]),
  walkthrough: (place) => new Walk(place),
  diff: (place) => showPair(place, record.pairs[place.dataset.number]),
};
places.forEach(SHOW[document.body.dataset.kind]);

offerColours();

const save = document.getElementById("save");
save.hidden = false;
save.addEventListener("click", () => {
  const address = URL.createObjectURL(new Blob([JSON.stringify(record, null, 2)], { type: "application/json" }));
  const link = make("a", { href: address, download: "record.json" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
});
document.body.dataset.ready = "true";
