import CipherDatabase
import CipherSchema
import Foundation
import TestKit
import Testing

@Suite struct DumpTests {
    /// Keeps what is printed.
    private final class Paper: TextOutputStream {
        var text = ""
        func write(_ string: String) { text += string }
    }

    let queue = DatabaseQueue()

    init() throws {
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT, score REAL);
                    INSERT INTO player VALUES (2, 'O''Brien', NULL), (1, 'Ann', 1.5);
                    CREATE TABLE team (code TEXT PRIMARY KEY, color) WITHOUT ROWID;
                    INSERT INTO team VALUES ('b', x'80'), ('a', x'626c7565');
                    CREATE VIEW names AS SELECT name FROM player ORDER BY id DESC;
                    """)
        }
    }

    private func printed(_ dump: (Database, Paper) throws -> Void) throws -> String {
        let paper = Paper()
        try queue.writeWithoutTransaction { try dump($0, paper) }
        return paper.text
    }

    private func printed(_ sql: SQL, _ format: some DumpFormat) throws -> String {
        try printed { try $0.dumpSQL(sql, format: format, to: $1) }
    }

    private let players: SQL = "SELECT * FROM player ORDER BY id"

    @Test("one line for each row, with separator, NULL and header as asked for")
    func list() throws {
        #expect(try printed(players, .list()) == "1|Ann|1.5\n2|O'Brien|\n")
        #expect(
            try printed(players, .list(header: true, separator: ", ", nullValue: "NULL"))
                == "id, name, score\n1, Ann, 1.5\n2, O'Brien, NULL\n")
        #expect(try printed(players, .debug(header: true)) == "id|name|score\n1|Ann|1.5\n2|O'Brien|\n")
        #expect(try printed("SELECT * FROM player WHERE 0", .list(header: true)) == "")
    }

    @Test("SQL literals that give the values back, blobs and quotes included")
    func quote() throws {
        #expect(try printed(players, .quote(header: true)) == "'id','name','score'\n1,'Ann',1.5\n2,'O''Brien',NULL\n")
        #expect(try printed("SELECT x'00ff', x'', -1e999, -7", .quote(separator: "; ")) == "X'00FF'; X''; -Inf; -7\n")
    }

    @Test("one line for each value, with an empty line between rows and between statements")
    func line() throws {
        #expect(
            try printed(players, .line())
                == "   id = 1\n name = Ann\nscore = 1.5\n\n   id = 2\n name = O'Brien\nscore = \n")
        #expect(try printed("SELECT 1 AS a; SELECT NULL AS bc", .line(nullValue: "-")) == "a = 1\n\nbc = -\n")
    }

    @Test("JSON keeps the order of columns, two of one name, and blobs as base64")
    func json() throws {
        #expect(
            try printed(players, .json())
                == #"[{"id":1,"name":"Ann","score":1.5},\#n{"id":2,"name":"O'Brien","score":null}]\#n"#)
        #expect(
            try printed(#"SELECT 1 AS a, 'x"/\' AS a, x'ff' AS "b""c", 1e999 AS d"#, .json())
                == #"[{"a":1,"a":"x\"/\\","b\"c":"/w==","d":"inf"}]\#n"#)
        #expect(try printed("SELECT 1 WHERE 0", .json()) == "[]\n")
        #expect(try printed("CREATE TABLE t (a)", .json()) == "")
        let encoder = JSONDumpFormat.defaultEncoder
        encoder.outputFormatting = .prettyPrinted
        #expect(
            try printed("SELECT 1 AS a, 2 AS b UNION SELECT 3, 4", .json(encoder: encoder))
                == "[\n  {\n    \"a\":1,\n    \"b\":2\n  },\n  {\n    \"a\":3,\n    \"b\":4\n  }\n]\n")
    }

    @Test("for eyes, a blob shows as text, as a UUID, or as SQL")
    func debug() throws {
        #expect(try printed("SELECT x'626c7565', x'80', x''", .debug()) == "blue|X'80'|\n")
        let uuid = UUID()
        #expect(try printed("SELECT \(uuid.databaseValue)", .debug()) == "\(uuid.uuidString)\n")
    }

    @Test("several statements print one after another; an error keeps what was printed before")
    func statements() throws {
        #expect(try printed("SELECT 1; CREATE TABLE t (a); SELECT 2; SELECT 3 WHERE 0", .list()) == "1\n2\n")
        let paper = Paper()
        #expect(databaseError { try queue.dumpSQL("SELECT 1; nonsense", to: paper) } != nil)
        #expect(paper.text == "1\n")
    }

    @Test("values are parameters of the SQL")
    func values() throws {
        let name = "O'Brien"
        #expect(try printed("SELECT id FROM player WHERE name = \(name)", .list()) == "2\n")
    }

    @Test("tables print in the order of their keys, under their names where there are several")
    func tables() throws {
        func printed(_ tables: [String], header: DumpTableHeaderOptions = .automatic, stable: Bool = false) throws
            -> String
        {
            let paper = Paper()
            try queue.dumpTables(tables, tableHeader: header, stableOrder: stable, to: paper)
            return paper.text
        }
        #expect(try printed(["player"]) == "1|Ann|1.5\n2|O'Brien|\n")
        #expect(try printed(["team"], header: .always) == "team\na|blue\nb|X'80'\n")
        #expect(try printed(["team", "player"]) == "team\na|blue\nb|X'80'\n\nplayer\n1|Ann|1.5\n2|O'Brien|\n")
        #expect(try printed(["names"]) == "O'Brien\nAnn\n")
        #expect(try printed(["names"], stable: true) == "Ann\nO'Brien\n")
        #expect(try printed([]) == "")
        #expect(databaseError { try printed(["missing"]) }?.message == "no such table: missing")
        #expect(databaseError { try printed(["player; DROP TABLE player"]) } != nil)
    }

    @Test("a request prints its rows")
    func request() throws {
        let paper = Paper()
        try queue.dumpRequest(SQLRequest<Row>(sql: "SELECT name FROM player WHERE id = ?", arguments: [1]), to: paper)
        #expect(paper.text == "Ann\n")
    }

    @Test("the schema prints table by table, without internal objects, and the content behind it")
    func content() throws {
        let queue = DatabaseQueue()
        var migrator = DatabaseMigrator()
        migrator.registerMigration("m") { db in
            try db.execute(
                sql: """
                    CREATE TABLE b (id INTEGER PRIMARY KEY AUTOINCREMENT, x);
                    CREATE VIEW a AS SELECT x FROM b;
                    CREATE TRIGGER t AFTER DELETE ON b BEGIN SELECT 1; END;
                    CREATE INDEX z ON b (x);
                    CREATE VIRTUAL TABLE Words USING fts4 (text);
                    INSERT INTO b (x) VALUES ('one');
                    """)
        }
        try migrator.migrate(queue)
        let schema = """
            sqlite_master
            CREATE VIEW a AS SELECT x FROM b;
            CREATE TABLE b (id INTEGER PRIMARY KEY AUTOINCREMENT, x);
            CREATE INDEX z ON b (x);
            CREATE TRIGGER t AFTER DELETE ON b BEGIN SELECT 1; END;
            CREATE VIRTUAL TABLE Words USING fts4 (text);

            """
        let paper = Paper()
        try queue.dumpSchema(to: paper)
        #expect(paper.text == schema)
        paper.text = ""
        try queue.dumpContent(format: .quote(), to: paper)
        #expect(paper.text == schema + "\nb\n1,'one'\n\nWords\n")
        paper.text = ""
        try DatabaseQueue().dumpContent(to: paper)
        #expect(paper.text == "sqlite_master\n")
    }
}
