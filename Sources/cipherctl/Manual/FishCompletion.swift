/// Completion for fish.
enum FishCompletion {
    static var script: String {
        var lines = [
            "# fish completion for cipherctl; made by: cipherctl completions fish",
            "complete -c cipherctl -n __fish_use_subcommand -f -l help -d 'show all commands'",
            "complete -c cipherctl -n __fish_use_subcommand -f -l version -d 'print versions'",
            "complete -c cipherctl -n __fish_use_subcommand -f -a help -d 'explain a command'",
            "complete -c cipherctl -n '__fish_seen_subcommand_from help' -f -a "
                + quoted((Completion.groups.map(\.word) + Completion.topics).joined(separator: " ")),
        ]
        for group in Completion.groups {
            lines.append(
                "complete -c cipherctl -n __fish_use_subcommand -f -a \(group.word) -d \(quoted(group.summary))")
            if !group.isSingle { lines += seconds(group) }
            for syntax in group.commands { lines += options(syntax, of: group) }
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func seconds(_ group: Completion.Group) -> [String] {
        let all = group.seconds.joined(separator: " ")
        let condition = "__fish_seen_subcommand_from \(group.word); and not __fish_seen_subcommand_from \(all)"
        // If the first word has operands itself, files are offered as well.
        let files = group.own == nil ? " -f" : ""
        return group.commands.filter { $0.name != group.word }.compactMap { syntax in
            guard let word = syntax.name.split(separator: " ").last else { return nil }
            return "complete -c cipherctl -n \(quoted(condition))\(files) -a \(word) -d \(quoted(syntax.summary))"
        }
    }

    private static func options(_ syntax: CommandSyntax, of group: Completion.Group) -> [String] {
        let words = syntax.name.split(separator: " ")
        var condition = words.map { "__fish_seen_subcommand_from \($0)" }.joined(separator: "; and ")
        if !group.isSingle, syntax.name == group.word {
            condition += "; and not __fish_seen_subcommand_from \(group.seconds.joined(separator: " "))"
        }
        let start = "complete -c cipherctl -n \(quoted(condition))"
        let operands = syntax.operands.indices.compactMap { syntax.choices(ofOperand: $0) }.map {
            "\(start) -f -a \(quoted($0.joined(separator: " ")))"
        }
        return operands
            + syntax.options.map { option in
                "\(start) -l \(option.name.dropFirst(2)) -d \(quoted(option.help))\(option.value.map(value) ?? " -f")"
            }
    }

    private static func value(_ placeholder: String) -> String {
        switch Completion.value(placeholder) {
        case .file: " -r -F"
        case .program: " -x -a '(__fish_complete_command)'"
        case .variable: " -x -a '(set -xn)'"
        case .choice(let words): " -x -a \(quoted(words.joined(separator: " ")))"
        case .free: " -x"
        }
    }

    /// In single quotes fish has two escapes.
    private static func quoted(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }
}
