-- Reads messages with rspamd. Takes their paths, one a line, and writes for each a list of the mailboxes of To.
local ucl = require "ucl"
local rspamd_task = require "rspamd_task"
local out = {}
for path in io.lines() do
  local ok, task = rspamd_task.load_from_file(path, rspamd_config)
  local found = {}
  if ok and task:process_message() then
    for _, a in ipairs(task:get_recipients('mime') or {}) do
      table.insert(found, { name = a.name or '', addr = a.addr or '' })
    end
    task:destroy()
  end
  table.insert(out, { to = found })
end
print(ucl.to_format(out, 'json-compact'))
