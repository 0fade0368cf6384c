// TypeScript declarations of the schemas in docs/openapi.json: an interface for each object, a type for anything else.

const comment = (text, indent = '') => (text ? `${indent}/** ${text.replaceAll('*/', '* /')} */\n` : '');
const quoted = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name));

function object(schema, indent) {
  const required = new Set(schema.required ?? []);
  const inner = `${indent}  `;
  const lines = Object.entries(schema.properties ?? {}).map(
    ([name, s]) =>
      `${comment(s.description, inner)}${inner}${quoted(name)}${required.has(name) ? '' : '?'}: ${type(s, inner)};\n`,
  );
  if (lines.length === 0) {
    const any = schema.additionalProperties;
    return `Record<string, ${any && any !== true ? type(any, indent) : any === false ? 'never' : 'unknown'}>`;
  }
  return `{\n${lines.join('')}${indent}}`;
}

function named(name, schema, indent) {
  switch (name) {
    case 'integer':
    case 'number':
      return 'number';
    case 'string':
    case 'boolean':
    case 'null':
      return name;
    case 'array': {
      const item = schema.items ? type(schema.items, indent) : 'unknown';
      return /[|&{ ]/.test(item) ? `Array<${item}>` : `${item}[]`;
    }
    case 'object':
      return object(schema, indent);
    default:
      throw new Error(`no TypeScript for the type ${JSON.stringify(name)}`);
  }
}

function type(schema, indent = '') {
  if (schema.$ref) return schema.$ref.split('/').at(-1);
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((v) => JSON.stringify(v)).join(' | ');
  if (schema.allOf) return schema.allOf.map((s) => type(s, indent)).join(' & ');
  const choice = schema.oneOf ?? schema.anyOf;
  if (choice) return choice.map((s) => type(s, indent)).join(' | ');
  if (schema.type === undefined) return 'unknown';
  return [schema.type]
    .flat()
    .map((name) => named(name, schema, indent))
    .join(' | ');
}

export function apiTypes(openapi) {
  const parts = Object.entries(openapi.components.schemas).map(([name, schema]) => {
    const plain = schema.type === 'object' && schema.properties && Object.keys(schema.properties).length > 0;
    return `${comment(schema.description)}export ${plain ? `interface ${name} ${object(schema, '')}` : `type ${name} = ${type(schema)};`}\n`;
  });
  return `// Made by scripts/build.mjs from docs/openapi.json.\n\n${parts.join('\n')}`;
}
