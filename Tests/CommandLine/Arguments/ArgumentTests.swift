import CipherStore
import Foundation
import Testing

@testable import cipherctl

@Suite("Arguments")
struct ArgumentTests {
    private let syntax = CommandSyntax(
        name: "try", summary: "",
        operands: [OperandSyntax("A", ""), OperandSyntax("B", "", isOptional: true)],
        options: [OptionSyntax("--flag", ""), OptionSyntax("--value", value: "V", "")], examples: [])

    @Test("options may stand anywhere, with a blank or an equals sign")
    func options() throws {
        let parsed = try ParsedArguments(["--value", "1", "a", "--flag", "b"], syntax: syntax)
        #expect(parsed.operands == ["a", "b"])
        #expect(parsed.value("--value") == "1")
        #expect(parsed.has("--flag"))
        #expect(try ParsedArguments(["a", "--value=x=y"], syntax: syntax).value("--value") == "x=y")
    }

    @Test("an option whose value may be empty takes it with an equals sign")
    func emptyValue() throws {
        let syntax = CommandSyntax(
            name: "try", summary: "", operands: [],
            options: [OptionSyntax("--value", value: "V", "", mayBeEmpty: true)], examples: [])
        #expect(try ParsedArguments(["--value="], syntax: syntax).value("--value") == "")
    }

    @Test("the environment says how long a key command may run")
    func commandTimeout() throws {
        func timeout(_ text: String?) throws -> Duration {
            try KeyOptions.commandTimeout { name in
                name == "CIPHERSTORE_KEY_COMMAND_TIMEOUT" ? text.map { Array($0.utf8) } : nil
            }
        }
        #expect(try timeout(nil) == .seconds(30) && timeout("") == .seconds(30))
        #expect(try timeout("2m") == .seconds(120))
        for wrong in ["0s", "soon", "30", "-1s"] { #expect(throws: UsageError.self) { try timeout(wrong) } }
    }

    @Test("behind two dashes all is operands, and a single dash is one")
    func operands() throws {
        #expect(try ParsedArguments(["--", "--flag", "-x"], syntax: syntax).operands == ["--flag", "-x"])
        #expect(try ParsedArguments(["-"], syntax: syntax).operands == ["-"])
    }

    @Test(
        "what makes no command is refused",
        arguments: [
            [], ["a", "b", "c"], ["a", ""], ["a", "--value"], ["a", "--value="], ["a", "--flag=1"],
            ["a", "--flag", "--flag"], ["a", "--value", "1", "--value", "2"], ["a", "--nothing"], ["a", "-f"],
        ])
    func refused(_ arguments: [String]) {
        #expect(throws: UsageError.self) { try ParsedArguments(arguments, syntax: syntax) }
    }

    @Test(
        "a key typed as an argument is refused and not repeated",
        arguments: ["--key", "--passphrase", "-k", "--password"])
    func keyInArguments(_ option: String) throws {
        for arguments in [["a", "\(option)=hunter2"], ["a", option, "hunter2"]] {
            let error = try #require(throws: UsageError.self) { try ParsedArguments(arguments, syntax: syntax) }
            #expect(!"\(error)".contains("hunter2"))
            #expect(error.hint.contains("--key-file"))
        }
    }

    @Test("exactly one source of the key is taken")
    func keySources() throws {
        let syntax = CommandSyntax(name: "try", summary: "", operands: [], options: KeyOptions.all, examples: [])
        func source(_ arguments: [String], terminal: Bool = false) throws -> String {
            try KeyOptions.source(ParsedArguments(arguments, syntax: syntax), hasTerminal: terminal).description
        }
        #expect(try source(["--key-file", "f"]) == "key file \"f\"")
        #expect(try source(["--raw-key-file", "f"]) == "raw key file \"f\"")
        let number = dup(0)
        defer { close(number) }
        #expect(try source(["--key-fd", "\(number)"]) == "file descriptor \(number)")
        #expect(throws: SystemError.self) { try source(["--key-fd", "900"]) }
        #expect(try source(["--key-command", "pass show 'my app'"]) == "command \"pass\"")
        #expect(try source(["--key-env", "V"]) == "environment variable V")
        #expect(try source(["--key-credential", "c"]) == "systemd credential \"c\"")
        #expect(try source([], terminal: true) == "prompt")
        #expect(throws: UsageError.self) { try source([]) }
        #expect(throws: UsageError.self) { try source(["--key-file", "f", "--key-env", "V"]) }
        #expect(throws: UsageError.self) { try source(["--key-fd", "-1"]) }
        #expect(throws: UsageError.self) { try source(["--key-fd", "x"]) }
    }
}
