/// The rules of language that a program can hold, for documents and for comments of Swift files: no sentence begins with
/// a relative clause or with a Where that means if; no translated idiom; no long sentence in a document.
enum LanguageFence {
    /// Words of a sentence in a document, code left out.
    static let mostWords = 30

    private static let openings: Set<String> = ["What", "Whoever", "Whatever"]
    private static let idioms: [[String]] = [
        "is noticed of", "are noticed of", "stands against", "stand against", "all the same", "than it shall",
        "in vain",
        "any more", "as by", "goes on with", "go on with", "gone on with", "is told", "are told", "was told",
        "were told",
        "begins to be", "whoever",
    ].map { $0.split(separator: " ").map(String.init) }

    static func findings(in tree: SourceTree) -> [Finding] {
        tree.files.flatMap { file -> [Finding] in
            if file.path.hasSuffix(".swift") {
                return comments(of: file).flatMap { check($0, in: file, isDocument: false) }
            }
            guard isDocument(file.path) else { return [] }
            return paragraphs(of: file).flatMap { check($0, in: file, isDocument: true) }
        }
    }

    private static func isDocument(_ path: String) -> Bool {
        path == "README.md" || path == "CHANGELOG.md" || path.hasPrefix("Docs/") && path.hasSuffix(".md")
    }

    /// Words that belong together, from a line on.
    private struct Paragraph {
        let line: Int
        var words: [Substring]
        var isProse = true
    }

    private static func comments(of file: SourceFile) -> [Paragraph] {
        var found: [Paragraph] = []
        var isOpen = false
        for (index, line) in file.lines.enumerated() {
            let text = line.drop { $0 == " " }
            // A line with code, or inside of a literal, is no comment.
            guard text.hasPrefix("//"), file.codeLines[index].allSatisfy({ $0 == " " }) else {
                isOpen = false
                continue
            }
            let words = text.drop { $0 == "/" }.split(separator: " ")
            if words.isEmpty || words[0] == "-" { isOpen = false }
            if isOpen {
                found[found.count - 1].words += words
            } else {
                found.append(Paragraph(line: index + 1, words: words))
            }
            isOpen = !words.isEmpty
        }
        return found
    }

    private static func paragraphs(of file: SourceFile) -> [Paragraph] {
        var found: [Paragraph] = []
        var (isOpen, isCode) = (false, false)
        for (index, line) in file.lines.enumerated() {
            if line.drop(while: { $0 == " " }).hasPrefix("```") { isCode.toggle() }
            let isIndented = line.hasPrefix("    ")
            if isCode || line.isEmpty || isIndented {
                isOpen = false
            } else if line.hasPrefix("|") {
                let cells = line.split(separator: "|").map { $0.split(separator: " ") }
                found += cells.map { Paragraph(line: index + 1, words: $0, isProse: false) }
                isOpen = false
            } else {
                let words = line.split(separator: " ")
                let begins =
                    words[0] == "-" || words[0].hasPrefix("#") || words[0].allSatisfy { $0.isNumber || $0 == "." }
                if isOpen && !begins {
                    found[found.count - 1].words += words
                } else {
                    found.append(Paragraph(line: index + 1, words: Array(begins ? words.dropFirst() : words[...])))
                }
                isOpen = !line.hasPrefix("#")
            }
        }
        return found
    }

    private static func check(_ paragraph: Paragraph, in file: SourceFile, isDocument: Bool) -> [Finding] {
        sentences(of: paragraph.words).compactMap { words in
            let text = words.joined(separator: " ")
            func finding(_ message: String) -> Finding {
                Finding(path: file.path, line: paragraph.line, message: "\(message): \(text)")
            }
            let first = words[0].drop { $0 == "*" }
            if !(words.last?.hasSuffix("?") ?? false) {
                if openings.contains(String(first)) { return finding("begins with \(first)") }
                if first == "Where", words.contains(where: { $0.hasSuffix(",") }) {
                    return finding("Where that means if")
                }
            }
            if let idiom = idiom(in: words) { return finding("\"\(idiom.joined(separator: " "))\"") }
            let count = words.count { !$0.hasPrefix("`") && !$0.hasPrefix("(`") }
            // A format may list its bytes in a sentence.
            let isBounded = isDocument && paragraph.isProse && !file.path.hasPrefix("Docs/Formats/")
            return isBounded && count > mostWords ? finding("\(count) words") : nil
        }
    }

    private static func sentences(of words: [Substring]) -> [[Substring]] {
        var found: [[Substring]] = [[]]
        for word in words {
            found[found.count - 1].append(word)
            let end = word.last { $0 != "*" && $0 != ")" && $0 != "\"" }
            if end == "." || end == "?" || end == "!" || end == ";" { found.append([]) }
        }
        return found.filter { !$0.isEmpty }
    }

    private static func idiom(in words: [Substring]) -> [String]? {
        let plain = words.map { word in
            word.lowercased().trimmingPrefix { !$0.isLetter }.prefix { $0.isLetter }
        }
        return idioms.first { idiom in
            plain.indices.contains { start in
                start + idiom.count <= plain.count && idiom.indices.allSatisfy { plain[start + $0] == idiom[$0] }
            }
        }
    }
}
