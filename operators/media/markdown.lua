-- What foreign Markdown may say: no file or address is read for it, no markup of the target passes through it.

local schemes = {http = true, https = true, mailto = true, tel = true}
local no_files = {}

local function read_html(block)
  if block.format ~= "html" then return {} end
  -- by way of Markdown, which has no attributes; with a list of files, even an empty one, nothing else is read
  local html = pandoc.read(block.text, "html", {}, no_files)
  return pandoc.read(pandoc.write(html, "gfm-raw_html"), "gfm-raw_html", {}, no_files).blocks
end

local function line_break(inline)
  return inline.format == "html" and inline.text:lower():match("^<br%s*/?>$") and pandoc.LineBreak() or {}
end

local function scheme(address)
  return (address:match("^(%a[%w+.-]*):") or ""):lower()
end

local function named(image)
  local of = scheme(image.src)
  if of ~= "http" and of ~= "https" then return image.caption end
  return pandoc.Link(#image.caption > 0 and image.caption or {pandoc.Str(image.src)}, image.src)
end

function Pandoc(document)
  document = document:walk({RawBlock = read_html, RawInline = line_break}):walk({Image = named})
  local headings, first = {}, nil
  document:walk({Header = function(heading)
    headings["#" .. heading.identifier] = true
    first = first or pandoc.utils.stringify(heading)
  end})
  document = document:walk({Link = function(link)
    if not (schemes[scheme(link.target)] or headings[link.target]) then return link.content end
  end})
  document.meta = {pagetitle = first or "Document"}
  return document
end
