// The official JavaScript client of DeepL, unchanged. Prints what it gets as JSON.
const fs = require('fs');
const path = require('path');
const deepl = require('deepl-node');

const [address, key, source, memoryFile, folder] = process.argv.slice(2);
const client = new deepl.DeepLClient(key, { serverUrl: `${address}/deepl`, maxRetries: 0 });

async function glossaries() {
    const entries = new deepl.GlossaryEntries({ entries: { Hauptventil: 'chief valve' } });
    const one = await client.createGlossary('node', 'de', 'en', entries);
    const text = await client.translateText('Öffnen Sie das Hauptventil.', 'de', 'en-US', { glossary: one });
    const stored = (await client.getGlossaryEntries(one)).entries();
    await client.deleteGlossary(one);
    const dictionary = { sourceLangCode: 'de', targetLangCode: 'en', entries };
    const several = await client.createMultilingualGlossary('node', [dictionary]);
    const renamed = await client.updateMultilingualGlossaryName(several.glossaryId, 'terms');
    const replaced = await client.replaceMultilingualGlossaryDictionary(several, dictionary);
    await client.deleteMultilingualGlossary(several);
    return { text: text.text, stored, renamed: renamed.name, count: replaced.entryCount };
}

async function memories() {
    const job = await client.importTranslationMemoryFromFilepath(memoryFile, { displayName: 'node' });
    const memory = job.results[0].translationMemoryId;
    const options = { translationMemory: memory, translationMemoryThreshold: 80 };
    const text = await client.translateText(source, 'de', 'en-US', options);
    const segments = await client.listTranslationMemorySegments(memory, { filterText: 'Hauptventil' });
    const exported = path.join(folder, 'exported.tmx');
    await client.exportTranslationMemoryToFilepath(memory, exported);
    await client.deleteTranslationMemory(memory);
    return { text: text.text, segments: segments.segments.length, exported: fs.readFileSync(exported, 'utf8') };
}

async function document() {
    const [from, to] = ['page.html', 'page.en.html'].map((name) => path.join(folder, name));
    fs.writeFileSync(from, `<p>${source}</p>`);
    await client.translateDocument(from, to, null, 'en-US');
    return fs.readFileSync(to, 'utf8');
}

async function main() {
    const several = await client.translateText([source, '<b>Öffnen</b> Sie das Hauptventil.'], null, 'en-GB', {
        tagHandling: 'xml',
        ignoreTags: ['x'],
        context: 'Ein Garten.',
    });
    const wrong = new deepl.DeepLClient('wrong', { serverUrl: `${address}/deepl`, maxRetries: 0 });
    const refusal = await wrong.getUsage().catch((error) => error.constructor.name);
    return {
        texts: several.map((found) => [found.text, found.detectedSourceLang]),
        sources: (await client.getSourceLanguages()).map((language) => language.code),
        targets: (await client.getTargetLanguages()).map((language) => language.code),
        pairs: await client.getGlossaryLanguagePairs(),
        limit: (await client.getUsage()).anyLimitReached(),
        glossaries: await glossaries(),
        memories: await memories(),
        document: await document(),
        refusal,
    };
}

main().then(
    (found) => console.log(JSON.stringify(found)),
    (error) => {
        console.error(error);
        process.exit(1);
    },
);
