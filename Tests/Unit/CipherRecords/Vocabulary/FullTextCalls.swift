import CipherDatabase
import CipherRecords

extension Calls {
    private typealias Report = Fleet.Report

    /// Section 7: full-text search.
    static func fullText(_ call: inout Calls) {
        fullTextTables(&call)
        synchronization(&call)
        tokenizers(&call)
        patterns(&call)
        searches(&call)
    }

    private static func fullTextTables(_ call: inout Calls) {
        call("create(virtualTable:options:using:)") { db in
            try db.create(virtualTable: "doc", options: [.ifNotExists], using: FTS5()) { t in t.column("a") }
            return try Fleet.definition(db, of: "doc").contains("USING fts5(a)")
        }
        call("FTS3() FTS4()") { db in
            try db.create(virtualTable: "three", using: FTS3()) { t in
                t.column("a")
                t.tokenizer = .porter
            }
            try db.create(virtualTable: "four", using: FTS4()) { t in t.column("a") }
            return try db.tableExists("three") && db.tableExists("four")
        }
        call("FTS4 content compress uncompress matchinfo prefixes") { db in
            try db.create(virtualTable: "doc", using: FTS4()) { t in
                t.content = ""
                t.matchinfo = "fts3"
                t.prefixes = [2, 4]
                (t.compress, t.uncompress) = (nil, nil)
                t.column("a")
            }
            return try Fleet.definition(db, of: "doc").contains(#"prefix="2,4""#)
        }
        call("notIndexed() asLanguageId()") { db in
            try db.create(virtualTable: "doc", using: FTS4()) { t in
                t.column("a")
                t.column("b").notIndexed()
                t.column("l").asLanguageId()
            }
            return try Fleet.definition(db, of: "doc").contains("notindexed")
        }
        call("FTS5 content contentRowID prefixes columnSize detail notIndexed()") { db in
            try db.create(virtualTable: "doc", using: FTS5()) { t in
                t.content = "report"
                t.contentRowID = "id"
                t.prefixes = [2, 4]
                t.columnSize = 0
                t.detail = "column"
                t.column("title")
                t.column("body").notIndexed()
            }
            return try Fleet.definition(db, of: "doc").contains("detail=column")
        }
    }

    private static func synchronization(_ call: inout Calls) {
        call("synchronize(withTable:)") { db in
            try db.create(virtualTable: "doc", using: FTS5()) { t in
                t.synchronize(withTable: "report")
                t.column("body")
            }
            try Report(id: 3, title: "New", body: "ice").insert(db)
            return try db.triggerExists("__doc_ai")
                && Table("doc").matching(FTS5Pattern(matchingPhrase: "ice")).fetchCount(db) == 1
        }
        call("dropFTS5SynchronizationTriggers(forTable:)") { db in
            try db.create(virtualTable: "doc", using: FTS5()) { t in
                t.synchronize(withTable: "report")
                t.column("body")
            }
            try db.dropFTS5SynchronizationTriggers(forTable: "doc")
            return try !db.triggerExists("__doc_ai")
        }
        call("dropFTS4SynchronizationTriggers(forTable:)") { db in
            try db.create(virtualTable: "doc", using: FTS4()) { t in
                t.synchronize(withTable: "report")
                t.column("body")
            }
            try db.dropFTS4SynchronizationTriggers(forTable: "doc")
            return try !db.triggerExists("__doc_ai")
        }
    }

    private static func tokenizers(_ call: inout Calls) {
        call("FTS4 .simple .porter .unicode61(diacritics:separators:tokenCharacters:)") { db in
            let all: [FTS3TokenizerDescriptor] = [
                .simple, .porter, .unicode61(diacritics: .keep, separators: ["x"], tokenCharacters: ["-"]),
            ]
            for (number, tokenizer) in all.enumerated() {
                try db.create(virtualTable: "doc\(number)", using: FTS4()) { t in
                    t.column("a")
                    t.tokenizer = tokenizer
                }
            }
            return try Fleet.definition(db, of: "doc2").contains("unicode61")
        }
        call(
            "FTS5 .ascii() .porter(wrapping:) .unicode61(diacritics:categories:separators:tokenCharacters:)"
        ) { db in
            let all: [FTS5TokenizerDescriptor] = [
                .ascii(), .porter(wrapping: .ascii()),
                .unicode61(diacritics: .remove, categories: "L* N*", separators: ["x"], tokenCharacters: ["-"]),
            ]
            for (number, tokenizer) in all.enumerated() {
                try db.create(virtualTable: "doc\(number)", using: FTS5()) { t in
                    t.column("a")
                    t.tokenizer = tokenizer
                }
            }
            return try Fleet.definition(db, of: "doc2").contains("unicode61")
        }
        call(".removeLegacy .keep .remove") { _ in
            let (three, five): ([FTS3.Diacritics], [FTS5.Diacritics]) = (
                [.removeLegacy, .keep, .remove], [.removeLegacy, .keep, .remove]
            )
            return three.count == five.count
        }
        call("FTS3.tokenize(_:)") { _ in try FTS3.tokenize("High Waves") == ["high", "waves"] }
        call("FTS3.tokenize(_:withTokenizer:)") { _ in try FTS3.tokenize("waves", withTokenizer: .porter) == ["wave"] }
    }

    private static func patterns(_ call: inout Calls) {
        call("FTS3Pattern(matchingAnyTokenIn:)") { _ in FTS3Pattern(matchingAnyTokenIn: "a \"b")?.rawPattern == "a OR b"
        }
        call("FTS3Pattern(matchingAllTokensIn:)") { _ in FTS3Pattern(matchingAllTokensIn: "a b")?.rawPattern == "a b" }
        call("FTS3Pattern(matchingAllPrefixesIn:)") { _ in
            FTS3Pattern(matchingAllPrefixesIn: "a b")?.rawPattern == "a* b*"
        }
        call("FTS3Pattern(matchingPhrase:)") { _ in FTS3Pattern(matchingPhrase: "a b")?.rawPattern == "\"a b\"" }
        call("FTS3Pattern(rawPattern:)") { _ in
            try Fleet.refuses { _ = try FTS3Pattern(rawPattern: "\"") }
                && FTS3Pattern(rawPattern: "a OR b").rawPattern == "a OR b"
        }
        call("FTS5Pattern(matchingAnyTokenIn:)") { _ in FTS5Pattern(matchingAnyTokenIn: "a b")?.rawPattern == "a OR b" }
        call("FTS5Pattern(matchingAllTokensIn:)") { _ in
            FTS5Pattern(matchingAllTokensIn: "a b")?.rawPattern == "a b"
                && FTS5Pattern(matchingAllTokensIn: "\"") == nil
        }
        call("FTS5Pattern(matchingAllPrefixesIn:)") { _ in
            FTS5Pattern(matchingAllPrefixesIn: "a b")?.rawPattern == "a* b*"
        }
        call("FTS5Pattern(matchingPhrase:)") { _ in FTS5Pattern(matchingPhrase: "a b")?.rawPattern == "\"a b\"" }
        call("FTS5Pattern(matchingPrefixPhrase:)") { _ in
            FTS5Pattern(matchingPrefixPhrase: "a b")?.rawPattern == "^\"a b\""
        }
        call("makeFTS5Pattern(rawPattern:forTable:)") { db in
            let pattern = try db.makeFTS5Pattern(rawPattern: "waves NOT wind", forTable: "report_ft")
            return try Table("report_ft").matching(pattern).fetchCount(db) == 1
                && Fleet.refuses { _ = try db.makeFTS5Pattern(rawPattern: "\"", forTable: "report_ft") }
        }
    }

    private static func searches(_ call: inout Calls) {
        call("matching(_:)") { db in
            let index = Report.index.matching(FTS5Pattern(matchingAllTokensIn: "waves mast"))
            return try Report.joining(required: index).fetchAll(db).map(\.id) == [1]
                && Table("report_ft").matching(FTS5Pattern?.none).isEmpty(db)
        }
        call("match(_:)") { db in
            let pattern = FTS5Pattern(matchingAllTokensIn: "storm")
            return try Table("report_ft").filter(Column("title").match(pattern)).fetchCount(db) == 1
        }
        call("Column.rank") { db in
            let pattern = FTS5Pattern(matchingAllTokensIn: "waves")
            return try Table("report_ft").matching(pattern).order(Column.rank).fetchAll(db).count == 2
        }
    }
}
