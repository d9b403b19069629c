import CipherDatabase
import Foundation
import Testing

/// The list of calls in Docs/Migrating-from-GRDB.md, the code of this folder, and the declarations in Sources say the
/// same: what the document lists compiles and runs, and what it says is not there is not there.
@Suite("The list of calls in Docs/Migrating-from-GRDB.md")
struct VocabularyTests {
    @Test("each call of the list has code, and each code stands in the list")
    func sameCalls() throws {
        let listed = try CallList.document()
        #expect(Set(listed.calls).subtracting(Calls.all.uses.keys).sorted() == [], "in the document, without code")
        #expect(Set(Calls.all.uses.keys).subtracting(listed.calls).sorted() == [], "code that the document lacks")
        #expect(Calls.all.repeated == [])
        #expect(listed.calls.count == Set(listed.calls).count, "a call stands twice")
        #expect(listed.calls.count > 300)
        #expect(!listed.missing.isEmpty)
    }

    @Test("each call does what it is for", arguments: Calls.all.uses.keys.sorted())
    func uses(key: String) throws {
        let use = try #require(Calls.all.uses[key])
        try Fleet.queue().inTransaction { db in
            let holds = try use(db)
            #expect(holds)
            return .rollback
        }
    }

    @Test("the code of a call contains the names, labels and operators of its key")
    func codeNamesItsCall() throws {
        let blocks = try CallList.codeBlocks()
        let unread = Set(blocks.map(\.key)).symmetricDifference(Calls.all.uses.keys).sorted()
        #expect(unread == [], "a key is a string of one line or two")
        for (key, code) in blocks {
            let missing = CallList.parts(of: key).filter { !code.contains($0) }
            #expect(missing == [], "\(key)")
        }
    }

    @Test("the functions of the list are declared in Sources, and what is not there is not")
    func declarations() throws {
        let (listed, declared) = (try CallList.document(), try Declarations.all())
        #expect(declared.contains("filter(sql:arguments:)") && declared.contains("databaseDictionary"))
        let there = listed.missing.filter { declared.contains($0) }
        #expect(there == [], "listed as not there, and declared: give it code, and move it to the list of calls")
    }
}

/// The claims of the document.
struct CallList {
    /// The code of the first column of each table.
    var calls: [String] = []
    /// The code of the first column of the table of what is not there.
    var missing: [String] = []

    static let heading = "## Every call"
    static let missingHeading = "## Missing names"

    static func document() throws -> CallList {
        let path = Declarations.root.appending(path: "Docs/Migrating-from-GRDB.md")
        var list = CallList()
        var section = ""
        for line in try String(contentsOf: path, encoding: .utf8).components(separatedBy: "\n") {
            if line.hasPrefix("## ") { section = line }
            guard section == heading || section == missingHeading, line.hasPrefix("| `") else { continue }
            // A pipe within a cell stands behind a backslash.
            let cells = line.replacingOccurrences(of: "\\|", with: "\u{0}").components(separatedBy: "|")
            let spans = cells[1].components(separatedBy: "`").enumerated().filter { $0.offset % 2 == 1 }
            let keys = spans.map { $0.element.replacingOccurrences(of: "\u{0}", with: "|") }
            if section == missingHeading { list.missing += keys } else { list.calls += keys }
        }
        return list
    }

    /// The code behind each key, up to the next one.
    static func codeBlocks() throws -> [(key: String, code: String)] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
        let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
        return try files.filter { $0.lastPathComponent.hasSuffix("Calls.swift") }.flatMap { file in
            let text = try String(contentsOf: file, encoding: .utf8)
            return text.components(separatedBy: "        call(").dropFirst().compactMap(block)
        }
    }

    /// The key, of one string or of two with a plus between them, and the code behind it.
    private static func block(_ text: String) -> (key: String, code: String)? {
        let pattern = #/^\s*"((?:[^"\\]|\\.)*)"(?:\s*\+\s*"((?:[^"\\]|\\.)*)")?\s*\)/#
        guard let match = text.prefixMatch(of: pattern) else { return nil }
        let key = String(match.1) + (match.2.map(String.init) ?? "")
        return (key.replacing(#/\\(.)/#) { String($0.1) }, String(text[match.range.upperBound...]))
    }

    /// The names with their labels and the operators of a key: `filter`, `sql:` and `arguments:` of
    /// `filter(sql:arguments:)`.
    static func parts(of key: String) -> [String] {
        key.matches(of: #/\w+:?|[^\w\s(),:.`\\]+/#).map { String($0.0) }.filter { $0 != "_" && $0 != "_:" }
    }
}

/// The public names that Sources declares.
enum Declarations {
    /// The folder of the package.
    static var root: URL {
        var folder = URL(filePath: #filePath).resolvingSymlinksInPath()
        for _ in 0..<5 { folder.deleteLastPathComponent() }
        return folder
    }

    /// `name` of types and properties; `name` and `name(label:_:)` of functions.
    static func all() throws -> Set<String> {
        var names: Set<String> = []
        for target in ["CipherDatabase", "CipherRecords", "CipherObservation", "CipherStore"] {
            let folder = root.appending(path: "Sources/\(target)")
            let paths = FileManager.default.enumerator(atPath: folder.path)
            while let path = paths?.nextObject() as? String {
                guard path.hasSuffix(".swift") else { continue }
                let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
                names.formUnion(Self.names(in: text))
            }
        }
        return names
    }

    static func names(in text: String) -> Set<String> {
        var names: Set<String> = []
        let code = text.replacing(#/\bopen (?=\w+ )/#, with: "public ")
        for declaration in code.components(separatedBy: "public ").dropFirst() {
            let type = #/(?:\w+ )*(?:struct|class|enum|protocol|typealias|var|let) (\w+)/#
            if let match = declaration.prefixMatch(of: type) { names.insert(String(match.1)) }
            let function = #/(?:\w+ )*func (\w+)(?:<[^(]*>)?\(/#
            if let match = declaration.prefixMatch(of: function) {
                names.insert(String(match.1))
                names.insert("\(match.1)(\(labels(declaration[match.range.upperBound...])))")
            }
        }
        return names
    }

    /// The labels of a list of parameters, whose opening parenthesis stands before the text.
    private static func labels(_ text: Substring) -> String {
        var (labels, depth, parameter) = ("", 1, "")
        for character in text {
            if "([{<".contains(character) { depth += 1 }
            if ")]}".contains(character) || (character == ">" && parameter.last != "-") { depth -= 1 }
            if depth == 0 || (depth == 1 && character == ",") {
                if let label = parameter.split(whereSeparator: { $0.isWhitespace || $0 == ":" }).first {
                    labels += label + ":"
                }
                parameter = ""
                if depth == 0 { break }
            } else {
                parameter.append(character)
            }
        }
        return labels
    }
}
