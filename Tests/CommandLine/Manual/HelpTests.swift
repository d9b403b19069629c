import Foundation
import Testing

@testable import cipherctl

@Suite("Help")
struct HelpTests {
    private static let document = Workplace.repositoryRoot.appendingPathComponent("Docs/Commands.md")

    /// `CIPHERSTORE_WRITE_DOCUMENTS=1` writes the present options into the document.
    @Test("each command's help begins with examples, and the document has its usage and options")
    func commands() throws {
        let place = try Workplace()
        let document = try String(contentsOf: Self.document, encoding: .utf8)
        for command in Catalogue.all {
            let syntax = command.syntax
            let words = syntax.name.split(separator: " ").map(String.init)
            let help = try place.run(words + ["--help"])
            #expect(help.status == 0)
            #expect(try place.run(["help"] + words).output == help.output)
            let examples = try #require(help.output.range(of: "Examples:\n  cipherctl \(syntax.name)"))
            let usage = try #require(help.output.range(of: "Usage: cipherctl \(syntax.name)"))
            #expect(examples.lowerBound < usage.lowerBound)
            let section = "\n## \(syntax.name)\n\n\(CommandsDocument.block(of: syntax))\n"
            #expect(document.contains(section), "\(syntax.name)")
        }
        for option in [OptionSyntax.json, .quiet, .yes] + KeyOptions.all {
            #expect(document.contains("| `\(option.form)` |"), "\(option.name)")
        }
        if ProcessInfo.processInfo.environment["CIPHERSTORE_WRITE_DOCUMENTS"] != nil {
            try CommandsDocument.updated(document).write(to: Self.document, atomically: true, encoding: .utf8)
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

    @Test("every command that an error, a finding or a text tells to run is one that there is, with its options")
    func namedCommands() throws {
        let sources = Workplace.repositoryRoot.appendingPathComponent("Sources")
        let files = FileManager.default.enumerator(atPath: sources.path)?.compactMap { $0 as? String } ?? []
        var count = 0
        for file in files where file.hasSuffix(".swift") && !file.hasPrefix("Workbench") {
            let text = try String(contentsOf: sources.appendingPathComponent(file), encoding: .utf8)
            let lines = text.split(separator: "\n").filter { !$0.drop { $0 == " " }.hasPrefix("//") }
            for match in lines.joined(separator: "\n").matches(
                of: #/cipherctl ([a-z][a-z-]*)(?: ([a-z]+))?(?: (--[a-z-]+))?/#)
            {
                if ["help", "cipherctl"].contains(match.1) { continue }
                let words = [match.1, match.2].compactMap { $0.map(String.init) }
                let command = try #require(Catalogue.find(words)?.command, "\(file): \(match.0)")
                count += 1
                if let option = match.3.map(String.init), option != "--help" {
                    #expect(command.syntax.options.contains { $0.name == option }, "\(file): \(match.0)")
                }
            }
        }
        #expect(count > 50)
    }

    @Test("what is no command ends with 64 and a hint", arguments: [["frobnicate"], ["key"], ["help", "frobnicate"]])
    func unknown(_ arguments: [String]) throws {
        let outcome = try Workplace().run(arguments)
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("\nhint: "))
        #expect(outcome.output.isEmpty)
    }
}
