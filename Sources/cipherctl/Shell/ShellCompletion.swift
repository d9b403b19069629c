/// The effect of the Tab key on a text: characters that are certain, and the names that are possible.
struct ShellCompletion: Equatable {
    /// The characters to insert.
    var insertion = ""
    /// The possible names; one at most is complete.
    var candidates: [String] = []

    static let nothing = ShellCompletion()

    /// The most names that are listed.
    static let mostShown = 200

    /// Completes the word at the end of a text.
    ///
    /// A word of SQL is completed by names of the schema, case-insensitively, and by keywords. A name that needs quotes is
    /// completed after a quote. The first word of a line after a point is the name of a command.
    ///
    /// - Parameters:
    ///   - text: The line up to the cursor.
    ///   - names: The tables, views and columns.
    init(of text: String, names: [String]) {
        if text.hasPrefix(".") {
            guard let blank = text.lastIndex(of: " ") else {
                self.init(of: text, among: ShellInstruction.names, ending: " ")
                return
            }
            // Others take files, modes and switches.
            let takesNames = [".schema ", ".indexes "].contains(where: text.hasPrefix)
            self.init(of: String(text[blank...].dropFirst()), among: takesNames ? names : [], ending: " ")
            return
        }
        if let quoted = Self.openName(text) {
            self.init(of: quoted, among: names, ending: "\"")
            return
        }
        let word = String(text.reversed().prefix { $0.isLetter || $0.isNumber || $0 == "_" }.reversed())
        guard !word.isEmpty else {
            self = .nothing
            return
        }
        let isLower = word == word.lowercased()
        let keywords = Self.keywords.map { isLower ? $0.lowercased() : $0 }
        self.init(of: word, among: names.filter(Self.isPlain) + keywords, ending: " ")
    }

    init(insertion: String = "", candidates: [String] = []) {
        self.insertion = insertion
        self.candidates = candidates
    }

    private init(of word: String, among names: [String], ending: String) {
        var taken = Set<String>()
        let found = names.filter {
            $0.count >= word.count && $0.prefix(word.count).lowercased() == word.lowercased()
                && taken.insert($0.lowercased()).inserted
        }
        guard let first = found.first else { return }
        candidates = found.sorted { $0.lowercased() < $1.lowercased() }
        if found.count == 1 {
            insertion = first.dropFirst(word.count) + ending
            return
        }
        var common = Substring(first)
        for name in found.dropFirst() {
            let length = zip(common.lowercased(), name.lowercased()).prefix { $0 == $1 }.count
            common = common.prefix(length)
        }
        insertion = String(common.dropFirst(word.count))
    }

    /// The beginning of a name in double quotes that the text does not end; nil if there is none.
    private static func openName(_ text: String) -> String? {
        guard text.count(where: { $0 == "\"" }) % 2 == 1, let quote = text.lastIndex(of: "\"") else { return nil }
        return String(text[text.index(after: quote)...])
    }

    private static func isPlain(_ name: String) -> Bool {
        !name.isEmpty && name.first?.isNumber == false && name.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
    }

    /// Names in columns that fit a terminal.
    static func columns(_ names: [String], width: Int) -> String {
        let shown = names.prefix(mostShown).map { $0.withoutControls() }
        let cell = (shown.map(\.count).max() ?? 0) + 2
        let perLine = max(1, width / cell)
        var text = ""
        for (index, name) in shown.enumerated() {
            let isLast = (index + 1) % perLine == 0 || index == shown.count - 1
            text += isLast ? name + "\n" : name + String(repeating: " ", count: cell - name.count)
        }
        return names.count > mostShown ? text + "... and \(names.count - mostShown) more\n" : text
    }

    /// The keywords that begin or continue statements of daily use.
    private static let keywords = """
        ABORT ADD ALTER ANALYZE AND AS ASC AUTOINCREMENT BEGIN BETWEEN BY CASCADE CASE CAST CHECK COLLATE COLUMN COMMIT \
        CONFLICT CONSTRAINT CREATE CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP DEFAULT DEFERRED DELETE DESC DISTINCT \
        DROP ELSE END ESCAPE EXCEPT EXISTS EXPLAIN FILTER FOREIGN FROM FULL GLOB GROUP HAVING IGNORE IMMEDIATE IN INDEX \
        INNER INSERT INTERSECT INTO IS JOIN KEY LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER OVER PARTITION PLAN \
        PRAGMA PRIMARY QUERY RECURSIVE REFERENCES REINDEX RELEASE RENAME REPLACE RETURNING RIGHT ROLLBACK ROW ROWID ROWS \
        SAVEPOINT SELECT SET TABLE TEMP THEN TO TRANSACTION TRIGGER UNION UNIQUE UPDATE USING VACUUM VALUES VIEW VIRTUAL \
        WHEN WHERE WINDOW WITH WITHOUT
        """.split(separator: " ").map(String.init)
}
