import Foundation
import Testing

@testable import cipherctl

@Suite("Help")
struct HelpTests {
    private func commandsDocument() throws -> String {
        try String(contentsOf: Workplace.repositoryRoot.appendingPathComponent("Docs/Commands.md"), encoding: .utf8)
    }

    @Test("each command's help begins with examples, and each of its options is documented")
    func commands() throws {
        let place = try Workplace()
        let document = try commandsDocument()
        for command in Catalogue.all {
            let syntax = command.syntax
            let words = syntax.name.split(separator: " ").map(String.init)
            let help = try place.run(words + ["--help"])
            #expect(help.status == 0)
            #expect(try place.run(["help"] + words).output == help.output)
            let examples = try #require(help.output.range(of: "Examples:\n  cipherctl \(syntax.name)"))
            let usage = try #require(help.output.range(of: "Usage: cipherctl \(syntax.name)"))
            #expect(examples.lowerBound < usage.lowerBound)
            #expect(document.contains("\n## \(syntax.name)\n"), "\(syntax.name)")
            for option in syntax.options where option.name != "--yes" {
                #expect(document.contains(option.name), "\(option.name)")
            }
        }
    }

    @Test("the overview names every command and is the answer to --help and to nothing at all")
    func overview() throws {
        let place = try Workplace()
        let help = try place.run(["--help"])
        #expect(help.status == 0)
        for command in Catalogue.all { #expect(help.output.contains("\n  \(command.syntax.name) ")) }
        let nothing = try place.run([])
        #expect(nothing.status == 64)
        #expect(nothing.errors == help.output)
    }

    @Test("--version names the program and both libraries")
    func version() throws {
        let place = try Workplace()
        let version = try place.run(["--version"])
        #expect(version.status == 0)
        #expect(version.output.contains("cipherctl \(Program.version)\nSQLCipher 4"))
        #expect(try place.run(["--version", "--json"]).json["sqlite_version"] is String)
    }

    @Test("what is no command ends with 64 and a hint", arguments: [["frobnicate"], ["key"], ["help", "frobnicate"]])
    func unknown(_ arguments: [String]) throws {
        let outcome = try Workplace().run(arguments)
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("\nhint: "))
        #expect(outcome.output.isEmpty)
    }
}
