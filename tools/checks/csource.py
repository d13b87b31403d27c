# SPDX-License-Identifier: Apache-2.0
"""As much of C as the rules need: tokens, functions, their parameters and their nesting."""
import re

_TOKEN = re.compile(r"""
      (?P<comment>/\*.*?\*/|//[^\n]*)
    | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\\n|\\.)*)
    | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)
    | (?P<mark>[^\s])
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

_CONTROL = ("if", "for", "while", "switch")


class Token:
    __slots__ = ("kind", "text", "line")

    def __init__(self, kind, text, line):
        self.kind, self.text, self.line = kind, text, line


def tokens(source):
    """All tokens but comments. A preprocessor directive is one token of kind `directive`."""
    result, line, position = [], 1, 0
    for match in _TOKEN.finditer(source):
        line += source.count("\n", position, match.start())
        position = match.start()
        if match.lastgroup != "comment":
            result.append(Token(match.lastgroup, match.group(), line))
    return result


def without_comments(source):
    """The source with comments and texts blanked; lines keep their numbers."""
    def blank(match):
        kind = match.lastgroup
        if kind == "comment":
            return re.sub(r"[^\n]", " ", match.group())
        if kind == "directive":
            return re.sub(r"/\*.*?\*/", " ", match.group())
        return '""' if kind == "text" else match.group()
    return _TOKEN.sub(blank, source)


class Function:
    """A function definition."""

    def __init__(self, name, parameters, first, last, nesting):
        self.name, self.parameters, self.nesting = name, parameters, nesting
        self.first, self.last = first, last

    @property
    def lines(self):
        return self.last - self.first + 1


def functions(source):
    """The function definitions of a file."""
    code = tokens(source)
    if not _balanced(code):
        code = _first_branches(code)
    result, depth, i = [], 0, 0
    while i < len(code):
        text = code[i].text
        if text == "{" and code[i].kind == "mark":
            head = _head(code, i)
            end = _match(code, i)
            if head:
                body = [token for token in code[i:end + 1] if token.kind != "directive"]
                name, parameters, first = head
                result.append(Function(name, parameters, first, code[end].line, _nesting(body)))
                i = end
            elif i > 1 and code[i - 1].kind == "text" and code[i - 2].text == "extern":
                depth += 1  # extern "C" is no level
            else:
                i = end
        i += 1
    return result


def _balanced(code):
    depth = 0
    for token in code:
        if token.kind == "mark":
            depth += {"{": 1, "}": -1}.get(token.text, 0)
        if depth < 0:
            return False
    return depth == 0


def _first_branches(code):
    """Leaves out #else and #elif branches, whose braces would count twice."""
    result, skipping = [], []
    for token in code:
        if token.kind == "directive":
            word = re.match(r"\s*#\s*(\w*)", token.text).group(1)
            if word.startswith("if"):
                skipping.append(False)
            elif word.startswith("el") and skipping:
                skipping[-1] = True
            elif word == "endif" and skipping:
                skipping.pop()
        if not any(skipping):
            result.append(token)
    return result


def _match(code, start):
    """The index of the bracket that closes the one at `start`."""
    opening = code[start].text
    closing = {"{": "}", "(": ")"}[opening]
    depth = 0
    for i in range(start, len(code)):
        if code[i].kind == "mark":
            depth += (code[i].text == opening) - (code[i].text == closing)
        if depth == 0:
            return i
    return len(code) - 1


def _head(code, brace):
    """(name, number of parameters, first line) if the brace opens a function body."""
    close = brace - 1
    if close < 2 or code[close].text != ")":
        return None
    depth, i = 0, close
    while i >= 0:
        depth += (code[i].text == ")") - (code[i].text == "(")
        if depth == 0:
            break
        i -= 1
    name = i - 1
    while name > 0 and code[name].text == ")":  # type(name)(parameters)
        name -= 1
    if name < 0 or code[name].kind != "word":
        return None
    first = name
    while first > 0 and code[first - 1].text not in (";", "}", "{") \
            and code[first - 1].kind != "directive":
        first -= 1
    return code[name].text, _parameters(code[i + 1:close]), code[first].line


def _parameters(code):
    code = [token for token in code if token.kind != "directive"]
    if not code or (len(code) == 1 and code[0].text == "void"):
        return 0
    depth, count = 0, 1
    for token in code:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        count += token.text == "," and depth == 0
    return count


def _nesting(body):
    """The deepest level of control statements, braces or not; `else if` is no deeper than `if`."""
    deepest = 0

    def block(i, depth):
        while i < len(body) and body[i].text != "}":
            i = statement(i, depth)
        return i + 1

    def controlled(i, depth):
        nonlocal deepest
        deepest = max(deepest, depth + 1)
        return statement(i, depth + 1)

    def statement(i, depth):
        if i >= len(body):
            return i
        text = body[i].text
        if text == "{":
            return block(i + 1, depth)
        if text in _CONTROL and i + 1 < len(body) and body[i + 1].text == "(":
            i = controlled(_match(body, i + 1) + 1, depth)
            while text == "if" and i < len(body) and body[i].text == "else":
                if body[i + 1].text == "if":
                    return statement(i + 1, depth)
                i = controlled(i + 1, depth)
            return i
        if text == "do":
            return simple(controlled(i + 1, depth))
        return simple(i)

    def simple(i):
        """Past the next `;`, or up to a `}` that closes the block around."""
        while i < len(body):
            text = body[i].text
            if text in ("(", "{"):
                i = _match(body, i)
            elif text == "}":
                return i
            elif text == ";":
                return i + 1
            i += 1
        return i

    block(1, 0)
    return deepest
