/// The parts of Docs/Commands.md that are made from the syntax of the commands, as the help is.
enum CommandsDocument {
    /// The options that the document explains once for all commands.
    private static let common: Set<String> = Set(
        [OptionSyntax.json, .quiet, .progress, .yes].map(\.name)
            + (KeyOptions.all + KeyOptions.new + RepositoryPlace.options).map(\.name)
            + FleetOptions.all.map(\.name) + ["--kdf", "--remote"])
    private static let keyPrefixes = ["--also-", "--invitation-"]

    /// The usage and the options of one command, as a block of code.
    static func block(of syntax: CommandSyntax) -> String {
        let options = syntax.options.filter { option in
            !common.contains(option.name) && !keyPrefixes.contains { option.name.hasPrefix($0) }
        }
        let rows = Help.rows([], options)
        return (["```", syntax.usage] + (rows.isEmpty ? [] : [""] + rows) + ["```"]).joined(separator: "\n")
    }

    /// The document with the present blocks: each follows the heading of its command.
    static func updated(_ document: String) -> String {
        Catalogue.all.reduce(document) { document, command in
            let heading = "\n## \(command.syntax.name)\n\n"
            guard let start = document.range(of: heading)?.upperBound,
                let end = document.range(of: "\n```\n", range: start..<document.endIndex)?.upperBound
            else { return document }
            return document.replacingCharacters(in: start..<end, with: block(of: command.syntax) + "\n")
        }
    }
}
