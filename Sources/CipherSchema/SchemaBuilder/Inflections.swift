import CipherDatabase
import Synchronization

/// English plurals and singulars: how `belongsTo("person")` finds table `people`. The rules are those of Ruby on Rails,
/// which GRDB has too; words can be added.
///
/// Only the last word of a name counts, as `Score` in `playerScore`, and digits at the end stay.
/// - SeeAlso: <https://api.rubyonrails.org/classes/ActiveSupport/Inflector/Inflections.html>
public struct Inflections: Sendable {
    private static let shared = Mutex(Inflections())

    /// The inflections in use. A program adds its words before its migrations run.
    public static var `default`: Inflections {
        get { shared.withLock { $0 } }
        set { shared.withLock { $0 = newValue } }
    }

    /// The ending of a word, and the new one.
    private struct Rule {
        enum Place {
            case ending
            case wholeWord
            /// After a letter that is none of these.
            case endingNotAfter(String)
        }

        let old: String
        let new: String
        var place = Place.ending

        /// The word with its new ending, in its case; nil when the rule does not apply.
        func apply(to word: String) -> String? {
            guard word.lowercased().hasSuffix(old) else { return nil }
            let stem = word.dropLast(old.count)
            switch place {
            case .ending: break
            case .wholeWord: if !stem.isEmpty { return nil }
            case .endingNotAfter(let letters):
                guard let last = stem.last?.lowercased(), !letters.contains(last) else { return nil }
            }
            // The common prefix of both endings keeps its case.
            let kept = zip(old, new).prefix { $0 == $1 }.count
            // Without one, the new ending begins as the old one did.
            let beginsUpper = kept == 0 && word.dropFirst(stem.count).first?.isUppercase == true
            let ending = beginsUpper ? new.prefix(1).uppercased() + new.dropFirst() : String(new.dropFirst(kept))
            return String(word.prefix(stem.count + kept)) + ending
        }
    }

    private(set) var uncountables: Set<String> = [
        "advice", "corps", "dice", "equipment", "fish", "information", "jeans", "kudos", "money", "offspring", "police",
        "rice", "series", "sheep", "species",
    ]
    /// The first that fits counts: `specimen` is before `man`, of which it looks like a plural.
    private var irregulars: [(singular: String, plural: String)] = [
        ("specimen", "specimens"), ("bias", "biases"), ("canvas", "canvases"), ("child", "children"),
        ("focus", "focuses"), ("foot", "feet"), ("gas", "gases"), ("hero", "heroes"), ("human", "humans"),
        ("leaf", "leaves"), ("lens", "lenses"),
        ("man", "men"), ("move", "moves"), ("person", "people"), ("sex", "sexes"), ("zombie", "zombies"),
    ]

    init() {}

    // MARK: A program's own words

    /// Adds words that are the same in the plural.
    public mutating func uncountableWords(_ words: [String]) {
        uncountables.formUnion(words.map { $0.lowercased() })
    }

    /// Adds a word with an irregular plural. It applies to words that end with it: `person` is for `salesperson` too.
    public mutating func irregularSuffix(_ singular: String, _ plural: String) {
        irregulars.insert((singular.lowercased(), plural.lowercased()), at: 0)
    }

    // MARK: Inflecting

    /// The name with its last word in the plural.
    public func pluralize(_ name: String) -> String {
        inflect(name) { word in
            for (singular, plural) in irregulars {
                if word.lowercased().hasSuffix(plural) { return word }
                if let inflected = Rule(old: singular, new: plural).apply(to: word) { return inflected }
            }
            return Self.first(of: Self.plurals, for: word) ?? word + "s"
        }
    }

    /// The name with its last word in the singular.
    public func singularize(_ name: String) -> String {
        inflect(name) { word in
            for (singular, plural) in irregulars {
                if let inflected = Rule(old: plural, new: singular).apply(to: word) { return inflected }
                if word.lowercased().hasSuffix(singular) { return word }
            }
            return Self.first(of: Self.singulars, for: word) ?? word
        }
    }

    private func inflect(_ name: String, _ word: (String) -> String) -> String {
        let radical = name.digitlessRadical
        let start = Self.startIndexOfLastWord(radical)
        let last = String(radical[start...])
        if last.isEmpty || uncountables.contains(last.lowercased()) { return name }
        return radical[..<start] + word(last) + name.dropFirst(radical.count)
    }

    /// The start of the last word: after a character that is not a letter or digit, or at a capital letter after
    /// another character.
    static func startIndexOfLastWord(_ name: String) -> String.Index {
        var start = name.endIndex
        while start > name.startIndex {
            let before = name.index(before: start)
            let isInside = name[before].isLetter || name[before].isNumber
            if !isInside { return start == name.endIndex ? before : start }
            start = before
            if start > name.startIndex, name[start].isUppercase, name[name.index(before: start)].isLowercase { break }
        }
        return start
    }

    private static func first(of rules: [Rule], for word: String) -> String? {
        for rule in rules { if let inflected = rule.apply(to: word) { return inflected } }
        return nil
    }

    // MARK: Rules, the first that applies counts

    private static func rules(_ pairs: [(String, String)], _ place: Rule.Place = .ending) -> [Rule] {
        pairs.map { Rule(old: $0.0, new: $0.1, place: place) }
    }

    private static let plurals: [Rule] = {
        var all: [Rule] = []
        all += rules(
            [
                ("oxen", "oxen"), ("ox", "oxen"), ("mouse", "mice"), ("louse", "lice"), ("mice", "mice"),
                ("lice", "lice"), ("axis", "axes"), ("testis", "testes"),
            ], .wholeWord)
        all += rules([
            ("quiz", "quizzes"), ("matrix", "matrices"), ("vertex", "vertices"), ("vertix", "vertices"),
            ("index", "indices"), ("indix", "indices"), ("x", "xes"), ("ch", "ches"), ("ss", "sses"), ("sh", "shes"),
            ("quy", "quies"),
        ])
        all += rules([("y", "ies")], .endingNotAfter("aeiouy"))
        all += rules([("hive", "hives")])
        all += rules([("fe", "ves")], .endingNotAfter("f"))
        all += rules([
            ("lf", "lves"), ("rf", "rves"), ("sis", "ses"), ("ta", "ta"), ("ia", "ia"), ("tum", "ta"), ("ium", "ia"),
            ("buffalo", "buffaloes"), ("tomato", "tomatoes"), ("bus", "buses"), ("alias", "aliases"),
            ("status", "statuses"), ("octopi", "octopi"), ("viri", "viri"), ("octopus", "octopi"), ("virus", "viri"),
            ("s", "s"),
        ])
        return all
    }()

    private static let singulars: [Rule] = {
        var all: [Rule] = []
        all += rules([
            ("databases", "database"), ("quizzes", "quiz"), ("matrices", "matrix"), ("vertices", "vertex"),
            ("indices", "index"),
        ])
        all += rules([("oxen", "ox"), ("axes", "axis"), ("axis", "axis")], .wholeWord)
        all += rules([
            ("aliases", "alias"), ("alias", "alias"), ("statuses", "status"), ("status", "status"),
            ("octopi", "octopus"), ("octopus", "octopus"), ("viri", "virus"), ("virus", "virus"), ("crises", "crisis"),
            ("crisis", "crisis"), ("testes", "testis"), ("testis", "testis"), ("shoes", "shoe"), ("oes", "o"),
            ("buses", "bus"), ("bus", "bus"),
        ])
        all += rules([("mice", "mouse"), ("lice", "louse")], .wholeWord)
        all += rules([
            ("xes", "x"), ("ches", "ch"), ("sses", "ss"), ("shes", "sh"), ("movies", "movie"), ("series", "series"),
            ("quies", "quy"),
        ])
        all += rules([("ies", "y")], .endingNotAfter("aeiouy"))
        all += rules([("lves", "lf"), ("rves", "rf"), ("tives", "tive"), ("hives", "hive")])
        all += rules([("ves", "fe")], .endingNotAfter("f"))
        for stem in ["analy", "ba", "diagno", "parenthe", "progno", "synop", "the"] {
            all += rules([(stem + "ses", stem + "sis"), (stem + "sis", stem + "sis")])
        }
        all += rules([("ta", "tum"), ("ia", "ium"), ("news", "news"), ("ss", "ss"), ("s", "")])
        return all
    }()
}

extension String {
    /// The name in the plural, by the inflections in use.
    var pluralized: String { Inflections.default.pluralize(self) }
    /// The name in the singular, by the inflections in use.
    var singularized: String { Inflections.default.singularize(self) }
    /// The name without the digits at its end.
    var digitlessRadical: String {
        let digits = reversed().prefix { $0.isNumber }.count
        return String(dropLast(digits))
    }
}
