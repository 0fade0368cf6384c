// A bucket "b" in memory, as far as s3fs asks: list, head, get (ranges), put, copy, delete; signatures are not looked at.
// usage: node s3-server.js PORT
const http = require('http');

const objects = new Map(); // key -> {body, type, meta}
const escape = (s) => s.replace(/[<>&'"]/g, (c) => `&#${c.charCodeAt(0)};`);
const meta = (headers) => Object.fromEntries(Object.entries(headers).filter(([k]) => k.startsWith('x-amz-meta-')));

function list(query) {
  const prefix = query.get('prefix') || '', delimiter = query.get('delimiter'), found = [], common = new Set();
  for (const [key, o] of [...objects].sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (!key.startsWith(prefix)) continue;
    const end = delimiter ? key.indexOf(delimiter, prefix.length) : -1;
    if (end >= 0) common.add(key.slice(0, end + 1));
    else found.push(`<Contents><Key>${escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"x"</ETag>` +
      `<Size>${o.body.length}</Size><StorageClass>STANDARD</StorageClass></Contents>`);
  }
  return `<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>${escape(prefix)}</Prefix>` +
    `<IsTruncated>false</IsTruncated>${found.join('')}${[...common].map((p) => `<CommonPrefixes><Prefix>${escape(p)}</Prefix></CommonPrefixes>`).join('')}` +
    '</ListBucketResult>';
}

function get(req, res, key) {
  const o = objects.get(key);
  if (!o) return res.writeHead(404).end();
  const head = { 'content-type': o.type, etag: '"x"', 'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT', ...o.meta };
  const range = /^bytes=(\d+)-(\d*)$/.exec(req.headers.range || '');
  if (!range) return res.writeHead(200, { ...head, 'content-length': o.body.length }).end(req.method === 'HEAD' ? undefined : o.body);
  const part = o.body.subarray(Number(range[1]), range[2] ? Number(range[2]) + 1 : undefined);
  return res.writeHead(206, { ...head, 'content-length': part.length, 'content-range': `bytes ${range[1]}-${Number(range[1]) + part.length - 1}/${o.body.length}` })
    .end(part);
}

function put(req, res, key, body) {
  const source = req.headers['x-amz-copy-source'];
  const from = source && objects.get(decodeURIComponent(source).replace(/^\/?b\//, ''));
  if (source && !from) return res.writeHead(404).end();
  objects.set(key, { body: from ? from.body : body, type: req.headers['content-type'] || 'binary/octet-stream', meta: meta(req.headers) });
  return res.writeHead(200, { etag: '"x"' }).end(source ? '<CopyObjectResult><ETag>"x"</ETag></CopyObjectResult>' : '');
}

http.createServer((req, res) => {
  const chunks = [];
  req.on('data', (c) => chunks.push(c)).on('end', () => {
    const url = new URL(req.url, 'http://x'), key = decodeURIComponent(url.pathname).replace(/^\/b\/?/, '');
    if (req.method === 'DELETE') return objects.delete(key), res.writeHead(204).end();
    if (req.method === 'PUT') return put(req, res, key, Buffer.concat(chunks));
    if (key !== '') return get(req, res, key);
    return res.writeHead(200, { 'content-type': 'application/xml' }).end(req.method === 'HEAD' ? undefined : list(url.searchParams));
  });
}).listen(Number(process.argv[2]), '127.0.0.1', () => console.log('listening'));
