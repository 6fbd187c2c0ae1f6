"""The console's page: targets, schedules and logs, with the buttons that operators need."""

from __future__ import annotations

__all__ = ["PAGE"]

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sentinel</title>
<style>
  body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
  table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
  th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8884; }
  .completed { color: #18794e; } .failed { color: #c62a2f; } .processing { color: #ad5700; }
  #message { min-height: 1.5em; color: #c62a2f; }
</style>
<h1>Sentinel</h1>
<p><a href="/interlock/">Interlock's dashboard</a> · cooldown of accounts: <span id="cooldown"></span> s
  <button id="change">Change</button></p>
<p id="message" role="status"></p>
<h2>Targets</h2><table id="targets"></table>
<h2>Schedules</h2><table id="tasks"></table>
<h2>Logs</h2><table id="logs"></table>
<script>
  const byId = (id) => document.getElementById(id);
  async function call(method, path, body) {
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const data = answer.status === 204 ? null : await answer.json();
    byId("message").textContent = answer.ok ? "" : data.detail;
    return answer.ok ? data : null;
  }
  function button(text, act) {
    const made = document.createElement("button");
    made.textContent = text;
    made.onclick = async () => { await act(); await show(); };
    return made;
  }
  function fill(id, names, rows, buttons) {
    const lines = [names, ...rows].map((row, index) => {
      const line = document.createElement("tr");
      for (const name of names) {
        const cell = document.createElement(index ? "td" : "th");
        cell.textContent = index ? row[name] ?? "" : name;
        if (index && name === "status") cell.className = row.status;
        line.append(cell);
      }
      if (index && buttons) {
        const cell = document.createElement("td");
        cell.append(...buttons(row));
        line.append(cell);
      }
      return line;
    });
    byId(id).replaceChildren(...lines);
  }
  async function show() {
    const paths = ["/targets", "/tasks", "/logs?limit=20", "/config"];
    const read = async (path) => (await fetch(path)).json();
    const [targets, tasks, logs, config] = await Promise.all(paths.map(read));
    byId("cooldown").textContent = config.cooldown;
    fill("targets", ["id", "item", "account_id", "status", "updated_at"], targets, (row) => [
      button("Execute", () => call("POST", `/targets/${row.id}/execute`)),
      button("Cancel", () => call("POST", `/targets/${row.id}/cancel`)),
      button("Reset", () => call("POST", `/targets/${row.id}/reset`)),
    ]);
    fill("tasks", ["id", "task_type", "cron_expression", "interval_seconds", "is_active", "version"], tasks, (row) => [
      button(row.is_active ? "Switch off" : "Switch on", () =>
        call("PATCH", `/tasks/${row.id}`, { is_active: !row.is_active, version: row.version })),
    ]);
    fill("logs", ["created_at", "target_id", "action", "success", "error_message"], logs);
  }
  byId("change").onclick = async () => {
    const given = prompt("Seconds between two reports of one account", byId("cooldown").textContent);
    if (given) { await call("PUT", "/config", { cooldown: Number(given) }); await show(); }
  };
  show();
  setInterval(show, 3000);
</script>
</html>
"""
