import Foundation
import TestKit
import Testing

/// What commands say when the system refuses a file or a folder.
@Suite("cipherctl and what the system refuses")
struct SystemRefusalTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    }

    @Test(
        "a name that is too long is refused as that, and leaves nothing",
        arguments: ["create", "import", "sql", "destroy"])
    func longName(command: String) throws {
        let name = String(repeating: "n", count: 250) + ".db"
        let before = try place.names()
        let words =
            switch command {
            case "import": ["import", place.path("plain.db"), place.path(name)]
            case "destroy": ["destroy", place.path(name), "--yes"]
            case "sql": ["sql", place.path(name), "SELECT 1"]
            default: [command, place.path(name)]
            }
        let outcome = try place.run(words + ["--json"] + (command == "destroy" ? [] : ["--raw-key-file", place.key]))
        #expect(
            outcome.status == 74 && outcome.errorJSON["errno"] as? Int == Int(ENAMETOOLONG), "\(outcome.errors)")
        #expect(try place.names() == before)
    }

    @Test(
        "a database in memory is no store, and no lock file is made for it",
        arguments: [":memory:", "", "file::memory:"])
    func memory(path: String) throws {
        let before = try place.names()
        let outcome = try place.ctl("create", path, "--json")
        #expect(outcome.status == 64 && outcome.errorJSON["code"] as? String == "usage", "\(outcome.errors)")
        #expect(try place.names() == before)
    }
}
