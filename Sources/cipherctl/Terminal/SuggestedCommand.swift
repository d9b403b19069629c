import StorePlatform
import Synchronization

/// A command line for a hint. It works as it is typed: it names the store of the present command and its key, as they were
/// given. A placeholder in capitals stands for a choice of the user.
///
/// No secret is in it: the options of a key name a file, a program, a variable or a credential.
struct SuggestedCommand {
    /// The command line.
    let text: String

    /// - Parameters:
    ///   - command: Such as `history record`.
    ///   - words: Operands after the store and options, as words of a shell.
    init(_ command: String, _ words: String...) {
        let all = ["cipherctl", command, Self.place(nil)] + words
        text = (all + Self.present.withLock { $0.key }).joined(separator: " ")
    }

    // MARK: The present command

    private struct Present {
        /// The store as it was typed.
        var store: String?
        /// The option of the key with its value.
        var key: [String] = []
    }

    private static let present = Mutex(Present())

    /// Keeps the store and the options of the key of the command that runs.
    static func keep(_ arguments: ParsedArguments, _ syntax: CommandSyntax) {
        let place = syntax.operands.firstIndex { $0.name == "STORE" } ?? 0
        let store = arguments.operands.indices.contains(place) ? arguments.operands[place] : nil
        // A descriptor is read once.
        let key = KeyOptions.all.filter { !["--key-fd", "--pin-fd"].contains($0.name) }.flatMap { option in
            arguments.has(option.name)
                ? [option.name] : arguments.values(option.name).flatMap { [option.name, ShellWord.quoted($0)] }
        }
        present.withLock { $0 = Present(store: store, key: key) }
    }

    private static func place(_ store: String?) -> String {
        (store ?? present.withLock { $0.store }).map { ShellWord.path($0) } ?? "STORE"
    }

    // MARK: Commands in sentences

    /// Completes the commands that a sentence names without their operands: `cipherctl verify` becomes
    /// `cipherctl verify 'app.db' --key-file 'app.key'`. The libraries write such sentences, and know no options.
    ///
    /// - Parameters:
    ///   - store: The store that is meant; nil for that of the present command.
    ///   - hasKey: Whether the key of the present command is a part of the commands; not one that has just failed.
    static func completing(_ sentence: String, store: String? = nil, hasKey: Bool = true) -> String {
        // Without a command that runs, as in a usage error, nothing is known.
        guard present.withLock({ $0.store != nil }) else { return sentence }
        let start = "cipherctl "
        var (result, rest) = ("", Substring(sentence))
        while let found = rest.range(of: start) {
            result += rest[..<found.lowerBound]
            rest = rest[found.upperBound...]
            guard let mention = Mention(rest, isQuoted: result.hasSuffix("`")) else {
                result += start
                continue
            }
            let text = start + mention.completed(place(store), key: hasKey ? present.withLock { $0.key } : nil)
            result += mention.isQuoted ? text : "`\(text)`"
            rest = rest[mention.end...]
        }
        return result + rest
    }
}

/// A command in a sentence, after the name of the program.
private struct Mention {
    let isQuoted: Bool
    /// Where the sentence goes on.
    let end: Substring.Index
    private let syntax: CommandSyntax
    private var options: [String] = []

    /// The operands that the sentence gives itself.
    private var given = ""

    /// - Returns: Nil where the text is no command of a store, or where its end is not known.
    init?(_ text: Substring, isQuoted: Bool) {
        let line = isQuoted ? text.upToBacktick : text.prefix { !"`(".contains($0) }
        let words = line.split(separator: " ")
        guard let (command, rest) = Catalogue.find(words.prefix(3).map { String($0.trimmingPunctuation) }),
            command.syntax.operands.contains(where: { $0.name == "STORE" || $0.name == "PLAIN" })
        else { return nil }
        let nameCount = words.prefix(3).count - rest.count
        syntax = command.syntax
        self.isQuoted = isQuoted
        var last = words[nameCount - 1]
        // A point or a comma ends the command.
        var isOver = last.trimmingPunctuation.endIndex != last.endIndex
        var left = words.dropFirst(nameCount)
        if !isOver, let word = left.first, word.trimmingPunctuation == "STORE" {
            (last, left, isOver) = (word, left.dropFirst(), word.trimmingPunctuation.endIndex != word.endIndex)
        }
        while !isOver, let word = left.first, let option = syntax.option(String(word.trimmingPunctuation)) {
            options.append(option.name)
            (last, left) = (word, left.dropFirst())
            isOver = word.trimmingPunctuation.endIndex != word.endIndex
            if !isOver, option.value != nil, let value = left.first {
                options.append(String(value.trimmingPunctuation))
                (last, left) = (value, left.dropFirst())
                isOver = value.trimmingPunctuation.endIndex != value.endIndex
            }
        }
        if isQuoted, !left.isEmpty {
            // In quotes everything is a part of the command.
            given = line[words[nameCount - 1].endIndex...].trimmingBlanks
            end = line.endIndex
            return
        }
        if !isOver, let next = left.first?.first, next.isUppercase || "'\"$-/.".contains(next) { return nil }
        end = last.trimmingPunctuation.endIndex
    }

    /// Whether it is a rotation that is refused as it stands, because it says nothing about a backup.
    private var lacksBackup: Bool {
        syntax.name == "rotate"
            && !["--backup", "--no-backup", "--status", "--abort", "--dry-run"].contains {
                options.contains($0) || given.contains($0)
            }
    }

    /// The command line with its operands and the key.
    ///
    /// - Parameter key: The options of the key; nil for a command that works without it, as far as that is possible.
    func completed(_ store: String, key: [String]?) -> String {
        var hasStore = false
        let operands = syntax.operands.compactMap { operand -> String? in
            if !hasStore, operand.name == "STORE" && syntax.name != "import" || operand.name == "PLAIN" {
                hasStore = true
                return store
            }
            // Statements that are not given are read from the terminal.
            if operand.name == "SQL" { return options.contains("--write") ? "\"SELECT 1\"" : "\"SQL\"" }
            return operand.isOptional ? nil : operand.name
        }
        let hasKey = KeyOptions.all.contains { (given + " ").contains($0.name + " ") }
        let isKeyless = hasKey || ["--no-key", "--status", "--plain"].contains(where: given.contains)
        let needsKey = !isKeyless && !["--no-key", "--status", "--plain"].contains(where: options.contains)
        let takesKey = syntax.options.contains { $0.name == KeyOptions.all[0].name }
        let words = (given.isEmpty ? operands + options : [given]) + (lacksBackup ? ["--backup DIR"] : [])
        let keyless = syntax.option("--no-key").map { [$0.name] } ?? []
        return ([syntax.name] + words + (needsKey && takesKey ? key ?? keyless : [])).joined(separator: " ")
    }
}

extension Substring {
    /// The text up to a backtick that is not in quotes of a shell.
    fileprivate var upToBacktick: Substring {
        var (isInQuotes, isEscaped, escapesInQuotes, last) = (false, false, false, Character(" "))
        return prefix { letter in
            defer { last = letter }
            if isEscaped {
                isEscaped = false
                return true
            }
            if letter == "\\", !isInQuotes || escapesInQuotes {
                isEscaped = true
            } else if letter == "'" {
                // In $'...' a backslash escapes what follows.
                escapesInQuotes = !isInQuotes && last == "$"
                isInQuotes.toggle()
            }
            return isInQuotes || letter != "`"
        }
    }

    fileprivate var trimmingBlanks: String { String(drop { $0 == " " }) }

    /// Without the punctuation of a sentence at its end.
    fileprivate var trimmingPunctuation: Substring {
        var text = self
        while let last = text.last, ".,:;)?".contains(last) { text = text.dropLast() }
        return text
    }
}
