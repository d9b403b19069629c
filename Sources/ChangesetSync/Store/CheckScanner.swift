/// Finds the columns that each CHECK of a table names, in the text of the table's definition.
///
/// A name too many does no harm: an update then writes a column that it did not have to write.
struct CheckScanner {
    private var words: [(text: String, depth: Int)] = []

    init(_ sql: String) {
        var (depth, text) = (0, Substring(sql))
        while let character = text.first {
            switch character {
            case "(": (depth, text) = (depth + 1, text.dropFirst())
            case ")": (depth, text) = (depth - 1, text.dropFirst())
            case "'": Self.skip(&text, to: "'")
            case "\"", "`": words.append((Self.skip(&text, to: character), depth))
            case "[": words.append((Self.skip(&text, to: "]"), depth))
            case "-" where text.hasPrefix("--"): text = text.drop { $0 != "\n" && $0 != "\r\n" }
            case "/" where text.hasPrefix("/*"):
                text = text.dropFirst(2)
                while !text.isEmpty, !text.hasPrefix("*/") { text.removeFirst() }
                text = text.dropFirst(2)
            case _ where Self.isNamePart(character):
                let word = text.prefix(while: Self.isNamePart)
                words.append((String(word), depth))
                text = text[word.endIndex...]
            default: text.removeFirst()
            }
        }
    }

    private static func isNamePart(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || character == "_" || character == "$" || !character.isASCII
    }

    /// Skips a quoted text and returns it.
    @discardableResult
    private static func skip(_ text: inout Substring, to end: Character) -> String {
        let content = text.dropFirst().prefix { $0 != end }
        text = text[content.endIndex...].dropFirst()
        return String(content)
    }

    /// For each CHECK the columns that it names.
    func groups(of columns: [String]) -> [Set<Int>] {
        var places: [String: Int] = [:]
        for (place, name) in columns.enumerated() { places[name.lowercased()] = place }
        return words.indices.filter { words[$0].text.lowercased() == "check" }.map { start in
            Set(
                words[(start + 1)...].prefix { $0.depth > words[start].depth }.compactMap {
                    places[$0.text.lowercased()]
                })
        }
    }
}
