import Testing

/// Each fence is seen red over a planted violation, and green over its nearest allowed neighbour.
@Suite("Each fence finds what is planted")
struct FenceTests {
    @Test(
        "a C library imported outside its fence is found",
        arguments: [
            ("Sources/KeyCustody/A.swift", "COpenSSL"), ("Sources/CipherDatabase/Pool/A.swift", "CSQLCipher"),
            ("Sources/CipherStore/A.swift", "CSQLCipher"), ("Sources/PageFormat/A.swift", "Glibc"),
            ("Sources/cipherctl/A.swift", "Darwin"), ("Sources/StoreCrypto/A.swift", "CPlatform"),
        ]
    )
    func foreignC(path: String, module: String) throws {
        let forms = ["import \(module)", "@preconcurrency internal import \(module)", "  import func \(module).free"]
        for form in forms {
            let text = "// import \(module)\nlet text = \"import \(module)\"\n\(form)\n"
            #expect(try PlantedTree.places([path: text], ImportFence.findings) == ["\(path):3"], "\(form)")
        }
    }

    @Test("a C library imported where it belongs passes")
    func homeC() throws {
        let files = [
            "Sources/CipherDatabase/SQLite/A.swift": "import CSQLCipher\n",
            "Sources/CipherStore/Reexports.swift": "@_exported import CSQLCipher\n",
            "Sources/StoreCrypto/A.swift": "import COpenSSL\n",
            "Sources/StorePlatform/A.swift": "import CPlatform\nimport Glibc\n",
            "Tests/Unit/A.swift": "import CSQLCipher\n",
        ]
        #expect(try PlantedTree.places(files, ImportFence.findings).isEmpty)
    }

    @Test("an import that goes up or sideways is found, and so is a target without a layer")
    func layers() throws {
        let files = [
            "Sources/StorePlatform/Up.swift": "import CipherStore\n",
            "Sources/KeyCustody/Sideways.swift": "import Foundation\nimport PageFormat\n",
            "Sources/StoreSharing/Sideways.swift": "import StorePlatform\nimport StoreCrypto\n",
            "Sources/CipherStore/Down.swift": "import CipherDatabase\n",
            "Sources/Newcomer/Unknown.swift": "import StoreCrypto\n",
        ]
        let places = try PlantedTree.places(files, ImportFence.findings)
        #expect(
            places == [
                "Sources/KeyCustody/Sideways.swift:2", "Sources/Newcomer/Unknown.swift",
                "Sources/StorePlatform/Up.swift:1", "Sources/StoreSharing/Sideways.swift:2",
            ]
        )
    }

    @Test(
        "what belongs to StoreSharing is found in StorePlatform, and an offset of SQLite's lock bytes anywhere else",
        arguments: [
            "func tryLockSQLiteBytes()", "let byte = LockByte.opening", "var holders: [Int]", "let first = 1 << 30",
            "let first = 1_073_741_825",
        ]
    )
    func sharing(code: String) throws {
        let text = "// SQLite, a LockByte, holders, 1 << 30\nlet text = \"SQLite\"\n\(code)\n"
        let files = [
            "Sources/StorePlatform/A.swift": text, "Sources/StoreSharing/Locks/LockBytes.swift": text,
            "Sources/StoreSharing/B.swift": "let holder = LockByte.opening\nlet bytes = 1 << 31\n",
        ]
        #expect(try PlantedTree.places(files, ImportFence.sharingFindings) == ["Sources/StorePlatform/A.swift:3"])
        let other = try PlantedTree.places(["Sources/PageFormat/A.swift": text], ImportFence.sharingFindings)
        #expect(other == (code.contains("let first") ? ["Sources/PageFormat/A.swift:3"] : []))
    }

    @Test("a file of 601 lines is found, one of 600 is not")
    func fileLength() throws {
        let files = [
            "Sources/A/Long.swift": String(repeating: "// line\n", count: 601),
            "Sources/A/Fits.swift": String(repeating: "// line\n", count: 600),
        ]
        #expect(try PlantedTree.places(files, SizeFence.findings) == ["Sources/A/Long.swift"])
    }

    @Test(
        "a function of 51 lines is found, one of 50 is not",
        arguments: ["func f(x: [Int] = []) -> Int {", "init(from text: String) {", "var value: Int {", "deinit {"]
    )
    func functionLength(opening: String) throws {
        func text(lines: Int) -> String {
            "struct S {\n" + opening + "\n" + String(repeating: "    g { 1 } // }\n", count: lines - 2) + "}\n}\n"
        }
        let files = ["Sources/A/Long.swift": text(lines: 51), "Sources/A/Fits.swift": text(lines: 50)]
        #expect(try PlantedTree.places(files, SizeFence.findings) == ["Sources/A/Long.swift:2"])
    }

    @Test("the length of a function is its own, whatever stands around it")
    func functionsAreToldApart() {
        let code = """
            protocol P {
                func required()
                var also: Int { get }
            }
            struct S {
                let list = items.map { .init($0) }
                func outer(
                    _ body: (Int) -> Void = { _ in }
                ) {
                    func inner() {
                    }
                }
                var stored = [
                    1: "one"
                ]
            }
            """
        let found = FunctionScanner.functions(in: code.split(separator: "\n").map(String.init))
        #expect(found.map(\.line) == [3, 7, 10])
        #expect(found.map(\.lineCount) == [1, 6, 2])
    }

    @Test("unfinished work is found in code and in comments", arguments: ["TO" + "DO", "FIX" + "ME", "X" + "XX"])
    func unfinished(word: String) throws {
        let files = ["Sources/A/A.swift": "let a = 1\n// \(word): later\n", "Sources/A/B.swift": "let XXXXXX = 1\n"]
        #expect(try PlantedTree.places(files, WordFence.unfinished) == ["Sources/A/A.swift:2"])
    }

    @Test(
        "a trap is found",
        arguments: [
            "fatalError()", "try! f()", "x as! Int", "x!", "f()!", "list[0]!.count", "var a: Int!", "\"a\\(b!)\"",
            "map { $0 }!", "if a! != b {",
        ]
    )
    func traps(code: String) throws {
        let text = "// fatalError try! x!\nlet text = \"try! x!\"\n\(code)\n"
        #expect(try PlantedTree.places(["Sources/A/A.swift": text], WordFence.traps) == ["Sources/A/A.swift:3"])
    }

    @Test(
        "code that only looks like a trap passes",
        arguments: ["a != b", "a!=b", "!flag", "f(!a)", "#if !os(Linux)", "try? f()", "x as? Int", "a && !b"]
    )
    func noTraps(code: String) throws {
        #expect(try PlantedTree.places(["Sources/A/A.swift": code + "\n"], WordFence.traps).isEmpty)
    }

    @Test("a promise to the compiler without its reason is found, in Sources and in Tests")
    func promises() throws {
        let bare =
            "// Safe because: too far away.\n\nfinal class A: @unchecked Sendable {}\n\nnonisolated(unsafe) var b = 1\n"
            + "unowned(unsafe) let c: A\n"
        let explained = """
            // Safe because: the value never changes,
            // not even at the end.
            final class A: @unchecked Sendable {}
            nonisolated(unsafe) var b = 1  // Safe because: set before any thread starts.
            """
        let files = ["Sources/A/Bare.swift": bare, "Tests/A/Bare.swift": bare, "Sources/A/Explained.swift": explained]
        #expect(
            try PlantedTree.places(files, WordFence.unexplainedPromises) == [
                "Sources/A/Bare.swift:3", "Sources/A/Bare.swift:5", "Sources/A/Bare.swift:6", "Tests/A/Bare.swift:3",
                "Tests/A/Bare.swift:5", "Tests/A/Bare.swift:6",
            ]
        )
    }

    @Test("a function as the value of a Mutex is found, a type that has one is not")
    func functionsInLocks() throws {
        let text = """
            let a = Mutex<() -> Void>({})
            let b: Mutex<(@Sendable (Int) async throws -> Void)?>
            let c: Mutex<Functions>
            let d = Mutex<Int>(0), e: () -> Void = {}
            """
        let files = ["Sources/A/A.swift": text, "Tests/A/A.swift": text]
        #expect(
            try PlantedTree.places(files, WordFence.functionsInLocks) == [
                "Sources/A/A.swift:1", "Sources/A/A.swift:2", "Tests/A/A.swift:1", "Tests/A/A.swift:2",
            ])
    }

    @Test("a path of one machine is found in sources, documents and scripts")
    func machinePaths() throws {
        let path = "/hom" + "e/someone/store"
        let files = [
            "Sources/A/A.swift": "let path = \"\(path)\"\n", "Docs/A.md": "see \(path)\n",
            "Makefile": "all:\n\tcd \(path)\n",
            "Docs/B.md": "see /usr/share/proj/proj.db\n",
        ]
        #expect(
            try PlantedTree.places(files, WordFence.machinePaths) == [
                "Docs/A.md:1", "Makefile:2", "Sources/A/A.swift:1",
            ]
        )
    }

    @Test(
        "a test that sleeps is found, a helper that polls is not",
        arguments: [
            "Thread.sleep(forTimeInterval: 1)", "usleep(5)", "try await Task.sleep(for: .seconds(1))", "sleep(1)",
        ]
    )
    func sleeps(code: String) throws {
        let files = ["Tests/Unit/A.swift": code + "\n", "Tests/Support/TestKit/Wait.swift": code + "\n"]
        #expect(try PlantedTree.places(files, WordFence.sleeps) == ["Tests/Unit/A.swift:1"])
    }

    @Test("a cast of bits is found, but at the border to C")
    func bitCasts() throws {
        let code = "let a = unsafeBitCast(b, to: C.self)\nlet d = unsafeDowncast(e, to: F.self)\nlet g = h as? I\n"
        let files = ["Sources/A/B.swift": code, "Sources/CipherDatabase/SQLite/Handle.swift": code]
        #expect(
            try PlantedTree.places(files, WordFence.bitCasts) == ["Sources/A/B.swift:1", "Sources/A/B.swift:2"])
    }

    @Test("a sentence that breaks a rule of language is found, in comments and in documents")
    func language() throws {
        let comments =
            "/// What it does.\n/// It is kept all\n/// the same.\nlet a = \"What it does.\" // Where it is, it\n"
            + "// Where there is none, it fails.\n/// What is it? Nobody is asked.\n"
        let long = Array(repeating: "word", count: LanguageFence.mostWords + 1).joined(separator: " ") + ".\n"
        let files = [
            "Sources/A/B.swift": comments, "Docs/A.md": "# What\n\nIt is `What it does`.\n\n\(long)\n```\nWhat\n```\n",
        ]
        #expect(
            try PlantedTree.places(files, LanguageFence.findings) == [
                "Docs/A.md:1", "Docs/A.md:5", "Sources/A/B.swift:1", "Sources/A/B.swift:1", "Sources/A/B.swift:5",
            ])
    }

    @Test("a README that is missing, too long, or names what is gone is found")
    func readmes() throws {
        let files = [
            "Sources/A/Here.swift": "", "Sources/A/Parts/One.swift": "", "Sources/B/Here.swift": "",
            "Sources/A/README.md": "`Here.swift`, `Parts/`, `Parts/One.swift`, `Database`\n`Gone.swift`\n`Missing/`\n"
                + "[one](../../Sources/B/Here.swift) [two](../../Tests/Gone)\n",
            "Sources/C/Here.swift": "", "Sources/C/README.md": String(repeating: "line\n", count: 40),
        ]
        let found = [
            "Sources/A/README.md:2", "Sources/A/README.md:3", "Sources/A/README.md:4", "Sources/B/README.md",
            "Sources/C/README.md",
        ]
        #expect(try PlantedTree.places(files, ReadmeFence.findings) == found)
    }

    @Test("a suite or a test that `make check` leaves out, and that is gone, is found")
    func leftOutOfCheck() throws {
        let files = [
            ".ci/check": "    'ATests.Here'\n    'ATests.Here/(one|two)'\n    'ATests.Gone'\n    'ATests.Here/one'\n",
            "Tests/Unit/A/Here.swift": "@Suite struct Here {\n    @Test func one() {}\n}\n",
            "Tests/Unit/B/Gone.swift": "@Suite struct Gone {\n}\n",
        ]
        #expect(try PlantedTree.places(files, CheckFence.findings) == [".ci/check:2", ".ci/check:3"])
    }

    @Test("two suites of one name or title are found, and so is a kind of tests without a README")
    func suiteNames() throws {
        let files = [
            "Tests/A/One.swift": "@Suite(\"Ones\") struct OneTests {}\n// struct OneTests {}\n",
            "Tests/A/Two.swift": "@Suite(\"Ones\")\nfinal class TwoTests {}\nlet it = \"struct TwoTests\"\n",
            "Tests/B/One.swift": "@Suite struct OneTests {}\n", "Tests/A/README.md": "# A\n",
        ]
        let found = ["Tests/A/Two.swift:1", "Tests/B/One.swift:1", "Tests/B/README.md"]
        #expect(try PlantedTree.places(files, SuiteFence.findings) == found)
    }

    @Test("two public types of one name are found, in whatever modules")
    func typeNames() throws {
        let files = [
            "Sources/A/One.swift": "public struct Limits: Sendable {}\nstruct Name {}\n",
            "Sources/B/Two.swift":
                "// public enum Limits\npublic final class Limits {}\npublic enum Other { public struct Limits {} }\n",
            "Sources/C/Three.swift": "public struct Name {\n    public struct Limits {}\n}\n",
        ]
        #expect(try PlantedTree.places(files, NameFence.findings) == ["Sources/B/Two.swift:2"])
    }

    @Test("two tests of one title are found")
    func testTitles() throws {
        let files = [
            "Tests/A/One.swift":
                "@Test(\"works\") func one() {}\n@Test(\n    \"fails\", arguments: [1])\nfunc two() {}\n",
            "Tests/A/Two.swift":
                "// @Test(\"works\")\n@Test(\"fails\")\nfunc one() {}\n@Test(\"works\") func two() {}\n",
            "Tests/A/README.md": "# A\n",
        ]
        #expect(try PlantedTree.places(files, SuiteFence.findings) == ["Tests/A/Two.swift:2", "Tests/A/Two.swift:4"])
    }

    @Test("a test or a target that Docs/Testing.md names, and that is gone, is found")
    func testing() throws {
        let files = [
            "Docs/Testing.md": "`make check`\n`make gone`\n`Tests/A/Here.swift`\n`Tests/A/Gone.swift`\n",
            "Makefile": "check: setup\n", "Tests/A/Here.swift": "",
        ]
        #expect(
            try PlantedTree.places(files, TestingFence.findings).sorted() == ["Docs/Testing.md:2", "Docs/Testing.md:4"])
    }

    @Test("strings and comments are blanked, interpolated code and line numbers stay")
    func stripping() {
        let code = """
            a /* b /* c */
            d */ e "f \\"g" h // i
            "j\\(k("l") + m)n" #"o\\(p)"# #"q\\#(r)"# s
            """
        let expected = """
            a             \n     e "     " h     \n" \\(k(" ") + m) " #"     "# #" \\#(r)"# s
            """
        #expect(SwiftCode.strip(code) == expected)
    }

    @Test("a file of Keys that is not listed is found, and so is one that is gone, changed, or of no generator")
    func listedKeys() throws {
        // SHA-256 of "a\n".
        let hash = "87428fc522803d31065e7bce3cf03fe4" + "75096631e5e07bbd7a0fde60c4cf25c7"
        func entry(_ file: String, _ hash: String, by producer: String = "make.py", _ expectation: String = "ok")
            -> String
        {
            #"{"file": "\#(file)", "sha256": "\#(hash)", "producer": "\#(producer)", "expectation": "\#(expectation)"}"#
        }
        let entries = [
            entry("good.json", hash), entry("gone.json", hash), entry("changed.json", hash),
            entry("orphan.json", hash, by: "lost.py"), entry("unsaid.json", hash, ""),
        ]
        let files = [
            "Keys/manifest.json": #"{"files": [\#(entries.joined(separator: ",\n"))]}"#, "Keys/README.md": "text\n",
            "Keys/generators/make.py": "pass\n", "Keys/good.json": "a\n", "Keys/changed.json": "b\n",
            "Keys/orphan.json": "a\n", "Keys/unsaid.json": "a\n", "Keys/conformance/new.vector": "a\n",
        ]
        let found = [
            "Keys/conformance/new.vector", "Keys/changed.json", "Keys/gone.json", "Keys/orphan.json",
            "Keys/unsaid.json",
        ]
        #expect(try PlantedTree.places(files, KeyFence.listing) == found)
        #expect(try PlantedTree.places(["README.md": ""], KeyFence.listing) == ["Keys/manifest.json"])
    }

    @Test("a text that looks like a real key is found, and known test keys pass")
    func realKeys() throws {
        let known = "f3a1c0de99b2846d7e5510ab" + "c48f2761d90b3e8a6c57f412e8b09d3a71c6254f"
        let other = "0b9d52e7fa1c6834d7e05b92" + "3fa8c1467de90b52f3a81c4e6d7092b5ea1f3c68"
        let files = [
            "Keys/known.json": known + "\n",
            "Sources/A.swift": "let key = \"\(known.uppercased())\"\nlet b = \"\(other)\"\n",
            "Docs/Formats/Example.md": other + "\n", "Docs/Other.md": "a \(other) b\n",
            "Tests/Zeros.swift": String(repeating: "0123456789abcdef", count: 4) + "\n",
            "Keys/generators/make.py": (0..<32).map { ["0", "1"][$0 / 16] + String($0 % 16, radix: 16) }.joined()
                + "\n",
            "README.md": "-----" + "BEGIN PRIVATE KEY-----\n",
        ]
        let found = ["README.md:1", "Docs/Other.md:1", "Sources/A.swift:2"]
        #expect(try PlantedTree.places(files, KeyFence.realKeys) == found)
    }
}
